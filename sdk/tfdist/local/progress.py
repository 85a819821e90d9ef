"""Formats the progress of a job for the console: a report of its leader, or what the status has of it."""

from collections.abc import Mapping
from typing import Final, TypeVar

from tfdist.api.status import JobPhase, Progress
from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport
from tfdist.progress import duration, eta_seconds, percent

Shown = ProgressReport | Progress
"""What is shown: the report of a local replica, or the progress in the status of a job in a cluster."""
_AnyShown = TypeVar("_AnyShown", ProgressReport, Progress)

_BAR: Final = 20
_STOPPING: Final = frozenset({JobPhase.SUSPENDING, JobPhase.SUSPENDED})


def unless_stopping(phase: str, report: _AnyShown | None) -> _AnyShown | None:
    """Return the report, or None in a phase in which the job stops: its remaining time would be wrong."""
    return None if phase in _STOPPING else report


def line(phase: str, report: Shown | None) -> str:
    """Return phase, bar and details of a report in one line of plain text; unknown parts are left out."""
    completed = percent(report.step, report.total_steps, report.percent) if report else None
    filled = _BAR * (completed or 0) // 100
    bar = "" if completed is None else f"[{'=' * filled}{' ' * (_BAR - filled)}] {completed}%"
    return "  ".join(part for part in (phase, bar, details(report) if report else "") if part)


def details(report: Shown) -> str:
    """Return step, remaining time, speed and metrics, or the phase of the replica before the first step."""
    if report.step is None:
        return _before_training(report) if isinstance(report, ProgressReport) else ""
    remaining = _remaining(report) if isinstance(report, ProgressReport) else report.eta_seconds
    parts = (
        f"step {report.step}" + (f" of {report.total_steps}" if report.total_steps else ""),
        f"{duration(remaining)} left" if remaining else "",
        f"{report.examples_per_second:,.0f} examples/s" if report.examples_per_second else "",
        metrics(report.metrics or {}),
    )
    return "  ".join(part for part in parts if part)


def _before_training(report: ProgressReport) -> str:
    waits = f", waiting for {', '.join(report.waiting_for)}" if report.waiting_for else ""
    return f"{report.phase}{waits}"


def _remaining(report: ProgressReport) -> float | None:
    return None if report.phase is Phase.FINISHED else eta_seconds(report)


def metrics(values: Mapping[str, float], digits: int = 3) -> str:
    """Return metrics in one line, sorted by name."""
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in sorted(values.items()))
