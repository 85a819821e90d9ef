"""`python -m tfdist.local.background FOLDER`: runs the job of a run directory for a client that does not wait for it.

| file | content |
|---|---|
| `job.json` | the job, and the ConfigMaps that it refers to; the client writes it |
| `status.json` | the status, also of a job that cannot run on this machine: phase Invalid |
| `run.log` | the messages of the run |
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tfdist import validation
from tfdist.api.status import JobPhase
from tfdist.contract_reports import ProgressReport
from tfdist.local.job import CannotRunHere, LocalJob
from tfdist.local.machine import this_machine
from tfdist.local.ports import FreePorts
from tfdist.local.run import run
from tfdist.local.run_directory import RunDirectory, RunDirectoryLocked
from tfdist.local.volumes import Sources
from tfdist.outcome import exit_code, read_status

JOB: Final = "job.json"
LOG: Final = "run.log"


class MessagesOnly:
    """Prints the messages of a run; the logs of the replicas are in their files, the progress in the status."""

    def message(self, text: str) -> None:
        """Print a message."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def log(self, name: str, lines: Sequence[str]) -> None:
        """Leave the lines in their file."""

    def progress(self, phase: str, report: ProgressReport | None) -> None:
        """Leave the progress in the status."""

    def close(self) -> None:
        """Do nothing, without a display."""


def main(folder: Path) -> int:
    """Run the job of a directory and return its exit code."""
    content = json.loads((folder / JOB).read_text(encoding="utf-8"))
    console = MessagesOnly()
    try:
        directory = RunDirectory(folder)
    except RunDirectoryLocked as error:
        console.message(str(error))
        return 2
    ports = FreePorts()
    try:
        return _run(content, directory, ports, console)
    except CannotRunHere as error:
        console.message(str(error))
        status = invalid_status(str(error))
        directory.write_status(status)
        return exit_code(read_status(status))
    finally:
        ports.close()
        directory.close()


def _run(content: Mapping[str, Any], directory: RunDirectory, ports: FreePorts, console: MessagesOnly) -> int:
    job = validation.parse(content["job"])
    config_maps = {manifest["metadata"]["name"]: manifest for manifest in content["configMaps"]}
    machine = this_machine()
    local = LocalJob(job, Sources(directory.path, {}, config_maps), machine, ports.take)
    directory.prepare(local.folders.values(), local.process_names)
    for note in local.notes:
        console.message(f"no effect here: {note}")
    return run(local, directory, console, machine.inherited)


def invalid_status(message: str) -> dict[str, Any]:
    """Return the status of a job that cannot run on this machine."""
    return {"phase": JobPhase.INVALID, "observedGeneration": 1, "summary": {"message": message}}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
