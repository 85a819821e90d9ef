"""Interface of a local run to its console; `tfdist.cli.console` implements it."""

from collections.abc import Sequence
from typing import Protocol

from tfdist.contract_reports import ProgressReport


class Console(Protocol):
    """Receives messages, log lines and progress of a run."""

    def message(self, text: str) -> None:
        """Write a message of the run itself."""

    def log(self, name: str, lines: Sequence[str]) -> None:
        """Write log lines of the replica `name`."""

    def progress(self, phase: str, report: ProgressReport | None) -> None:
        """Show the phase of the job, and the progress of training if it is known."""

    def close(self) -> None:
        """Remove the progress display."""
