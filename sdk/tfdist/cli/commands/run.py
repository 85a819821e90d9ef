"""`tfdist run --local FILE`: runs a job as processes of this machine, without a cluster."""

import os
import shlex
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from socket import gethostname
from typing import Final

from tfdist import contract, validation
from tfdist.api.v1 import TFDistJob
from tfdist.cli import jobs
from tfdist.cli.config_maps import config_maps
from tfdist.cli.console import RunConsole
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError
from tfdist.cli.findings import finding
from tfdist.cli.output import count, message
from tfdist.local import launch
from tfdist.local.env import inherited
from tfdist.local.gpus import devices
from tfdist.local.plan import CannotRunHere, Machine, Plan, plan
from tfdist.local.ports import FreePorts
from tfdist.local.run import run as run_plan
from tfdist.local.run_directory import RunDirectory, RunDirectoryLocked
from tfdist.local.volumes import Sources

_FOLDER: Final = ".tfdist"
_NOT_INHERITED: Final = (
    contract.JOB_ENV,
    contract.TF_CONFIG_ENV,
    contract.REPORT_PORT_ENV,
    contract.TERMINATION_LOG_ENV,
)


def execute(file: str, *, state: Path | None, volumes: Sequence[str], entry_point: str, in_place: bool) -> int:
    """Run the job and return its exit code.

    Args:
        file: file or folder with one job and its ConfigMaps.
        state: run directory; by default a folder in the current one, by the job's name.
        volumes: folders of volumes, as NAME=FOLDER.
        entry_point: command line that replaces the entry point of an image.
        in_place: whether gangs restart in place.
    """
    folders = dict(map(_volume_folder, volumes))
    if in_place and not launch.installed():
        raise CommandError("--in-place: the launcher is not installed here: pip install tfdist-trainer")
    found = jobs.read(file)
    selected = jobs.select(found, file, "run")
    if len(selected) > 1:
        names = ", ".join(document.value["metadata"]["name"] for document in selected)
        raise CommandError(f"{file}: contains {len(selected)} jobs ({names}); move the one to run to a file of its own")
    if not selected:
        return 1
    (document,) = selected
    directory = _run_directory(state, document.value["metadata"]["name"])
    ports = FreePorts()
    try:
        job = _new_job(document)
        environment = inherited(os.environ, str(Path(sys.executable).parent), _NOT_INHERITED)
        command = tuple(shlex.split(entry_point))
        machine = Machine(gethostname(), environment, command, devices(environment), launcher=in_place)
        sources = Sources(directory.path, folders, config_maps(found, job.metadata.namespace))
        return _run(plan(job, sources, machine, ports.take), directory, environment)
    except CannotRunHere as error:
        for problem in error.problems:
            finding(document, problem.path, problem.message).print(sys.stderr)
        return 1
    finally:
        ports.close()
        directory.close()


def _run_directory(chosen: Path | None, name: str) -> RunDirectory:
    path = (chosen or _default_directory(name)).resolve()
    try:
        return RunDirectory(path)
    except RunDirectoryLocked as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"--state: {path} cannot be used: {error.strerror}") from None


def _new_job(document: Document) -> TFDistJob:
    """Return the job with a new uid: each run is a job of its own, as if it had just been created."""
    given = {key: value for key, value in document.value["metadata"].items() if value and key != "uid"}
    return validation.parse(document.value | {"metadata": {"uid": str(uuid.uuid4())} | given})


def _run(planned: Plan, directory: RunDirectory, environment: Mapping[str, str]) -> int:
    names = [replica.name for planned_gang in planned.gangs.values() for replica in planned_gang.replicas]
    directory.prepare(planned.folders.values(), names)
    for line in _heading(planned, directory.path):
        message(line)
    console = RunConsole(sys.stdout, names, time.monotonic)
    return run_plan(planned, directory, console, environment)


def _heading(planned: Plan, folder: Path) -> Iterator[str]:
    """Yield the summary of a plan: replicas, folders, and settings without effect."""
    gangs = [
        " and ".join(count(number, role) for role, number in planned_gang.gang.sizes().items())
        for planned_gang in planned.gangs.values()
    ]
    yield f"{planned.job.metadata.name}: {', then '.join(gangs)}; logs, volumes and status.json in {_short(folder)}"
    for volume in planned.folders.values():
        if volume.label:
            empty = "" if any(volume.path.iterdir()) else ", which is empty"
            yield f"{volume.label}: the folder {_short(volume.path)}{empty}"
    for note in planned.notes:
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


def _short(path: Path) -> str:
    """Return a path relative to the current folder, if it is below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
