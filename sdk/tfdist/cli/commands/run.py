"""`tfdist run --local FILE`: runs a job as processes of this machine, without a cluster."""

import shlex
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from tfdist import validation
from tfdist.api.v1 import TFDistJob
from tfdist.cli import jobs
from tfdist.cli.config_maps import config_maps
from tfdist.cli.console import RunConsole
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.findings import finding
from tfdist.cli.output import message
from tfdist.cli.script_job import is_script, script_job
from tfdist.local.commands import launcher_installed
from tfdist.local.job import CannotRunHere, LocalJob
from tfdist.local.machine import this_machine
from tfdist.local.ports import FreePorts
from tfdist.local.replica_plan import FETCH
from tfdist.local.run import run
from tfdist.local.run_directory import RunDirectory, RunDirectoryLocked, short
from tfdist.local.volumes import Sources
from tfdist.messages import count
from tfdist.render.gang import gangs

_FOLDER: Final = ".tfdist"


def execute(
    file: str,
    arguments: Sequence[str] = (),
    *,
    workers: int | None = None,
    state: Path | None,
    volumes: Sequence[str],
    entry_point: str,
    in_place: bool,
) -> int:
    """Run the job and return its exit code.

    Args:
        file: file or folder with one job and its ConfigMaps; or a Python script.
        arguments: those of the script.
        workers: replicas of the script; by default one.
        state: run directory; by default a folder in the current one, by the job's name.
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
        return ExitCode.NEGATIVE
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
        return ExitCode.NEGATIVE
    finally:
        ports.close()
        directory.close()


def _read(file: str, arguments: Sequence[str], workers: int | None) -> list[Document]:
    if is_script(file):
        return script_job(file, arguments, 1 if workers is None else workers)
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
    names = [*local.replicas, *([FETCH] if local.fetch else [])]
    directory.prepare(local.folders.values(), names)
    for line in _heading(local, directory.path):
        message(line)
    return run(local, directory, RunConsole(sys.stdout, names, time.monotonic), environment)


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
