"""`tfdist run --local FILE`: a job as processes of this machine, without a cluster."""

import argparse
import os
import shlex
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from socket import gethostname
from typing import Final

from tfdist import contract, validation
from tfdist.cli import jobs
from tfdist.cli.config_maps import config_maps
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError
from tfdist.cli.output import colour_wanted, count, finding, say
from tfdist.local import launch
from tfdist.local.gpus import devices
from tfdist.local.plan import CannotRunHere, Machine, Plan, plan
from tfdist.local.ports import FreePorts
from tfdist.local.run import run as carry_out
from tfdist.local.screen import Screen
from tfdist.local.state import Occupied, State
from tfdist.local.variables import inherited
from tfdist.local.volumes import Sources

DETAILS = """\
Every replica is a process, with the variables that its pod would have; evaluation follows training. Ctrl-C stops them
within their grace period, a second one at once; none is left, however the run ends.
Exit code: 0 the job succeeded, 1 it is invalid or needs a cluster, 2 a file cannot be read, 124 activeDeadlineSeconds,
130 and 143 it was stopped; else that of the replica that failed."""

_FOLDER: Final = ".tfdist"
_NOT_INHERITED: Final = (
    contract.JOB_ENV,
    contract.TF_CONFIG_ENV,
    contract.REPORT_PORT_ENV,
    contract.TERMINATION_LOG_ENV,
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", metavar="FILE", help="YAML or JSON with one TFDistJob and its ConfigMaps; or a folder")
    parser.add_argument("--local", action="store_true", required=True, help="on this machine: the only way yet")
    text = f"folder for logs, volumes and status.json (default: {_FOLDER}/NAME OF THE JOB)"
    parser.add_argument("--state", type=Path, metavar="FOLDER", help=text)
    text = "folder for a volume or claim of that name; `checkpoint` is checkpoint.volume; may be repeated"
    parser.add_argument("--volume", action="append", default=[], metavar="NAME=FOLDER", type=_named, help=text)
    text = "program of replicas whose image has it as its entry point, such as 'python train.py'"
    parser.add_argument("--command", default="", metavar="COMMAND", help=text, dest="entry_point")
    text = "start a gang again in place when a replica dies, within the limits of its runPolicy (tfdist-launch)"
    parser.add_argument("--in-place", action="store_true", help=text)


def run(options: argparse.Namespace) -> int:
    """Run the job and return its exit code."""
    found = jobs.read(options.file)
    chosen = jobs.valid(found, options.file, "run")
    if len(chosen) > 1:
        names = ", ".join(document.value["metadata"]["name"] for document in chosen)
        raise CommandError(f"{options.file}: holds {len(chosen)} jobs ({names}); put the one to run into a file alone")
    if not chosen:
        return 1
    name = chosen[0].value["metadata"]["name"]
    folder = (options.state or _default_folder(name)).resolve()
    try:
        state = State(folder)
    except Occupied as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"--state: {folder} cannot be used: {error.strerror}") from None
    ports = FreePorts()
    try:
        return _run(chosen[0], found, options, state, ports)
    finally:
        ports.close()
        state.close()


def _run(document: Document, found: list[Document], options: argparse.Namespace, state: State, ports: FreePorts) -> int:
    manifest = document.value
    given = {key: value for key, value in manifest["metadata"].items() if value and key != "uid"}
    # like a job that has just been created: each run is a job of its own
    job = validation.parse(manifest | {"metadata": {"uid": str(uuid.uuid4())} | given})
    sources = Sources(state.folder, dict(options.volume), config_maps(found, job.metadata.namespace))
    environment = inherited(os.environ, str(Path(sys.executable).parent), _NOT_INHERITED)
    if options.in_place and not launch.installed():
        raise CommandError("--in-place: the launcher is not installed here: pip install tfdist-trainer")
    entry_point = tuple(shlex.split(options.entry_point))
    machine = Machine(gethostname(), environment, entry_point, devices(environment), launcher=options.in_place)
    try:
        planned = plan(job, sources, machine, ports.take)
    except CannotRunHere as error:
        for problem in error.problems:
            finding(document, problem.path, problem.message).print(sys.stderr)
        return 1
    names = [replica.name for planned_gang in planned.gangs.values() for replica in planned_gang.replicas]
    state.prepare(planned.folders.values(), names)
    for line in _heading(planned, state.folder):
        say(line)
    terminal = sys.stdout.isatty()
    screen = Screen(sys.stdout, names, terminal=terminal, colour=colour_wanted(sys.stdout), clock=time.monotonic)
    return carry_out(planned, state, screen, environment)


def _heading(planned: Plan, folder: Path) -> Iterator[str]:
    """Yield what people should know before it starts: who runs, where what is, and what has no meaning here."""
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


def _default_folder(name: str) -> Path:
    folder = Path(_FOLDER)
    folder.mkdir(exist_ok=True)
    if not (folder / ".gitignore").exists():
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    return folder / name


def _named(text: str) -> tuple[str, Path]:
    name, equals, folder = text.partition("=")
    if not name or not equals or not folder:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=FOLDER")
    return name, Path(folder).expanduser().resolve()


def _short(path: Path) -> str:
    """Return a path as people write it: from here, where it is below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
