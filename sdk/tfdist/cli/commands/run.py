"""`tfdist run FILE`: runs a job in a cluster or, with `--local`, as processes on this machine."""

import shlex
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from tfdist import validation
from tfdist.api.v1 import TFDistJob
from tfdist.cli import jobs
from tfdist.cli.command_job import NewJobOptions, is_script, script_job, script_of
from tfdist.cli.command_line import command
from tfdist.cli.commands.submit import (
    Code,
    CodeStore,
    Env,
    Gpus,
    Image,
    Include,
    Name,
    RequirementsFile,
    Set,
    SubmitOptions,
    Words,
    Workers,
    create,
)
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.console import RunConsole
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.findings import finding
from tfdist.cli.jobs import config_maps
from tfdist.cli.output import message
from tfdist.local.commands import launcher_installed
from tfdist.local.job import CannotRunHere, LocalJob
from tfdist.local.machine import this_machine
from tfdist.local.ports import FreePorts
from tfdist.local.run import run as run_replicas
from tfdist.local.run_directory import RunDirectory, RunDirectoryLocked, short
from tfdist.local.volumes import Sources
from tfdist.messages import count
from tfdist.render.gang import gangs

_FOLDER: Final = ".tfdist"

State = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="With --local: logs, volumes and status.json; default: .tfdist/JOB."),
]
Volume = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FOLDER",
        help="With --local: folder of a volume or claim; `checkpoint` is checkpoint.volume.",
    ),
]
EntryPoint = Annotated[
    str,
    typer.Option(
        "--command", metavar="COMMAND", help="With --local: entry point of the image, such as 'python train.py'."
    ),
]
InPlace = Annotated[
    bool,
    typer.Option("--in-place", help="With --local: restart a gang in place, within the limits of its runPolicy."),
]


@command
def run(
    connection: ClusterOptions,
    words: Words = None,
    *,
    after_dashes: list[str],
    local: Annotated[bool, typer.Option("--local", help="On this machine, without a cluster.")] = False,
    name: Name = None,
    workers: Workers = None,
    gpus: Gpus = None,
    image: Image = None,
    code: Code = None,
    include: Include = None,
    code_store: CodeStore = None,
    requirements: RequirementsFile = None,
    env: Env = None,
    set_: Set = None,
    state: State = None,
    volume: Volume = None,
    command_: EntryPoint = "",
    in_place: InPlace = False,
) -> int:
    """Run a job and follow it to its end, in a cluster or as processes on this machine.

    In a cluster it is `tfdist submit`, then `tfdist attach`. With --local each replica is a process with the
    environment variables of its pod; restarts, deadlines and evaluation work as in a cluster. Ctrl-C suspends the job:
    its replicas stop within their grace periods, and a second Ctrl-C kills them. No process outlives the run.

    Exits 0 if the job succeeds, or 1 if it is invalid or needs a cluster, 2 if a request fails or a file cannot be
    read, 124 if it exceeds a deadline, 130 or 143 after a signal; otherwise with the exit code of the replica that
    failed the job.
    """
    if not local:
        _reject(
            {"--state": state, "--volume": volume, "--command": command_, "--in-place": in_place}, "requires --local"
        )
        options = NewJobOptions(name=name, workers=workers, gpus=gpus, image=image, env=env or ())
        request = SubmitOptions(
            words or (),
            after_dashes,
            options,
            code,
            include or (),
            code_store,
            set_ or (),
            connection.namespace,
            requirements,
        )
        return create(request, connection.client, follow=True)
    only_in_a_cluster = {"--name": name, "--gpus": gpus, "--image": image, "--code": code, "--include": include,
                         "--code-store": code_store, "--requirements": requirements, "--env": env, "--set": set_,
                         "--namespace": connection.namespace, "--context": connection.context,
                         "--kubeconfig": connection.kubeconfig}  # fmt: skip
    _reject(only_in_a_cluster, "cannot be used with --local")
    file, *arguments = _local_words(words or [], after_dashes)
    return run_here(
        file, arguments, workers=workers, state=state, volumes=volume or (), entry_point=command_, in_place=in_place
    )


def run_here(
    file: str,
    arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    state: Path | None,
    volumes: Sequence[str],
    entry_point: str,
    in_place: bool,
) -> int:
    """Run the job on this machine and return its exit code.

    Args:
        file: file or folder with one job and its ConfigMaps; or a Python script.
        arguments: of the script.
        workers: replicas of the script; default: one.
        state: run directory; default: a folder in the current one, named after the job.
        volumes: folders of volumes, as NAME=FOLDER.
        entry_point: command line that replaces the entry point of an image.
        in_place: whether gangs restart in place.
    """
    folders = dict(map(_volume_folder, volumes))
    if in_place and not launcher_installed():
        raise CommandError("--in-place: the launcher is not installed here: pip install tfdist-trainer")
    inputs = _read(file, arguments, workers)
    local_jobs = jobs.select(inputs, file, "run")
    if len(local_jobs) > 1:
        names = ", ".join(document.value["metadata"]["name"] for document in local_jobs)
        raise CommandError(
            f"{file}: contains {len(local_jobs)} jobs ({names}); move the one to run to a file of its own"
        )
    if not local_jobs:
        return CommandExitCode.NEGATIVE
    (document,) = local_jobs
    directory = _run_directory(state, document.value["metadata"]["name"])
    ports = FreePorts()
    try:
        job = _new_job(document)
        machine = this_machine(entry_point=tuple(shlex.split(entry_point)), launcher=in_place)
        sources = Sources(directory.path, folders, config_maps(inputs, job.metadata.namespace))
        return _run(LocalJob(job, sources, machine, ports.take), directory, machine.inherited)
    except CannotRunHere as error:
        for problem in error.problems:
            finding(document, problem.path, problem.message).print(sys.stderr)
        return CommandExitCode.NEGATIVE
    finally:
        ports.close()
        directory.close()


def _local_words(words: list[str], command: list[str]) -> list[str]:
    """Return the file of a local run and its arguments; `-- python train.py` is the script `train.py`."""
    if not words and command and (script := script_of(command)) is not None:
        return [script.target, *script.arguments]
    if not words and not command:
        raise typer.BadParameter("give a manifest or a script")
    return [*words, *command]


def _reject(options: dict[str, Any], reason: str) -> None:
    for option, value in options.items():
        if value:
            raise typer.BadParameter(f"{option} {reason}")


def _read(file: str, arguments: Sequence[str], workers: int | None) -> list[Document]:
    if is_script(file):
        return [Document(script_job(file, arguments, 1 if workers is None else workers), file)]
    if workers is not None:
        raise CommandError(f"--workers: {file} is a manifest; set spec.worker.replicas in it")
    if arguments:
        raise CommandError(f"{arguments[0]}: only a Python script takes arguments")
    return jobs.read(file)


def _run_directory(folder: Path | None, name: str) -> RunDirectory:
    path = (folder or _default_directory(name)).resolve()
    try:
        return RunDirectory(path)
    except RunDirectoryLocked as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"--state: {path} cannot be used: {error.strerror}") from None


def _new_job(document: Document) -> TFDistJob:
    """Return the job with a new uid: each run is a job of its own, as if it had just been created."""
    metadata = {key: value for key, value in document.value["metadata"].items() if value and key != "uid"}
    return validation.parse(document.value | {"metadata": {"uid": str(uuid.uuid4())} | metadata})


def _run(local: LocalJob, directory: RunDirectory, environment: Mapping[str, str]) -> int:
    names = local.process_names
    directory.prepare(local.folders.values(), names)
    for line in _heading(local, directory.path):
        message(line)
    return run_replicas(local, directory, RunConsole(sys.stdout, names, time.monotonic), environment)


def _heading(local: LocalJob, folder: Path) -> Iterator[str]:
    """Yield the summary of a job: replicas, folders, and settings without effect."""
    sizes = [" and ".join(count(number, role) for role, number in gang.sizes().items()) for gang in gangs(local.job)]
    yield f"{local.job.metadata.name}: {', then '.join(sizes)}; logs, volumes and status.json in {short(folder)}"
    for volume in local.folders.values():
        if volume.label:
            empty_note = "" if any(volume.path.iterdir()) else ", which is empty"
            yield f"{volume.label}: the folder {short(volume.path)}{empty_note}"
    for note in local.notes:
        yield f"no effect here: {note}"


def _default_directory(name: str) -> Path:
    folder = Path(_FOLDER)
    folder.mkdir(exist_ok=True)
    if not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder / name


def _volume_folder(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not name or not equals or not folder:
        raise CommandError(f"--volume {text!r}: write NAME=FOLDER")
    return name, Path(folder).expanduser().resolve()
