"""Formats a progress report for the console."""

from collections.abc import Mapping
from typing import Final

from tfdist.api.status import JobPhase
from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport
from tfdist.progress import duration, eta_seconds, percent

_BAR: Final = 20
_STOPPING: Final = frozenset({JobPhase.SUSPENDING, JobPhase.SUSPENDED})


def unless_stopping(phase: str, report: ProgressReport | None) -> ProgressReport | None:
    """Return the report, or None in a phase in which the job stops: its remaining time would be wrong."""
    return None if phase in _STOPPING else report


def line(phase: str, report: ProgressReport | None) -> str:
    """Return phase, bar and details of a report in one line of plain text; unknown parts are left out."""
    completed = percent(report.step, report.total_steps, report.percent) if report else None
    filled = _BAR * (completed or 0) // 100
    bar = "" if completed is None else f"[{'=' * filled}{' ' * (_BAR - filled)}] {completed}%"
    return "  ".join(part for part in (phase, bar, details(report) if report else "") if part)


def details(report: ProgressReport) -> str:
    """Return step, remaining time, speed and metrics, or the phase of the replica before the first step."""
    if report.step is None:
        waits = f", waiting for {', '.join(report.waiting_for)}" if report.waiting_for else ""
        return f"{report.phase}{waits}"
    remaining = None if report.phase is Phase.FINISHED else eta_seconds(report)
    parts = (
        f"step {report.step}" + (f" of {report.total_steps}" if report.total_steps else ""),
        f"{duration(remaining)} left" if remaining else "",
        f"{report.examples_per_second:,.0f} examples/s" if report.examples_per_second else "",
        metrics(report.metrics),
    )
    return "  ".join(part for part in parts if part)


def metrics(values: Mapping[str, float], digits: int = 3) -> str:
    """Return metrics in one line, sorted by name."""
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in sorted(values.items()))
