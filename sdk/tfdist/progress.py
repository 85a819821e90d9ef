"""Derived values of a progress report: the same in the controller, the command and local runs."""

from typing import Final

from tfdist.contract_reports import ProgressReport

_LONGEST_ETA_SECONDS: Final = 10 * 365 * 24 * 3600
"""A longer remaining time is omitted as useless."""
_MINUTE: Final = 60


def percent(step: int | None, total_steps: int | None, reported: float | None = None) -> int | None:
    """Return the completed part of training, 0 to 100, or None if it is unknown.

    It is the `reported` percentage if there is one, otherwise the percentage of the steps.
    """
    if reported is not None:
        return min(100, int(reported))
    if step is None or not total_steps:
        return None
    return min(100, step * 100 // total_steps)


def eta_seconds(report: ProgressReport) -> int | None:
    """Return the estimated seconds until training ends, or None if unknown or longer than ten years."""
    remaining = report.remaining_seconds
    return round(remaining) if remaining is not None and remaining <= _LONGEST_ETA_SECONDS else None


def duration(seconds: float) -> str:
    """Return a duration in kubectl's format, rounded to seconds: `45s`, `1m20s`, `3h5m`."""
    minutes, remainder = divmod(round(seconds), _MINUTE)
    if not minutes:
        return f"{remainder}s"
    if minutes < _MINUTE:
        return f"{minutes}m{remainder}s" if remainder else f"{minutes}m"
    hours, minutes = divmod(minutes, _MINUTE)
    return f"{hours}h{minutes}m" if minutes else f"{hours}h"
