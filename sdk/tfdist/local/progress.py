"""How far a gang is: what its leader reports, and that in words."""

import http.client
from collections.abc import Mapping
from typing import Final

from pydantic import ValidationError

from tfdist.contract import PROGRESS_PATH
from tfdist.contract_reports import ProgressReport
from tfdist.local.ports import LOCAL_HOST

_ANSWER_SECONDS: Final = 0.5
_LARGEST: Final = 1 << 20
_BAR: Final = 20
_MINUTE: Final = 60


def ask(port: int) -> ProgressReport | None:
    """Return what the replica behind `port` reports, or None while it does not answer."""
    connection = http.client.HTTPConnection(LOCAL_HOST, port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", PROGRESS_PATH)
        return ProgressReport.model_validate_json(connection.getresponse().read(_LARGEST))
    except (OSError, http.client.HTTPException, ValidationError):
        return None
    finally:
        connection.close()


def percent(report: ProgressReport) -> int | None:
    """Return the finished part, 0 to 100, where the number of steps is known."""
    if report.step is None or not report.total_steps:
        return None
    return min(100, 100 * report.step // report.total_steps)


def eta_seconds(report: ProgressReport) -> int | None:
    """Return the estimated rest of training at the pace of the last steps."""
    if report.step is None or not report.total_steps or not report.step_time_millis:
        return None
    return round(max(0, report.total_steps - report.step) * report.step_time_millis / 1000)


def line(phase: str, report: ProgressReport | None) -> str:
    """Return phase, bar, step, speed, metrics and rest, as far as they are known."""
    parts = [phase]
    done = percent(report) if report else None
    if report is None or report.step is None:
        return f"{phase}  {report.phase}" if report else phase
    if done is not None:
        filled = _BAR * done // 100
        parts.append(f"[{'=' * filled}{' ' * (_BAR - filled)}] {done}%")
    parts.append(f"step {report.step}" + (f" of {report.total_steps}" if report.total_steps else ""))
    rest = eta_seconds(report)
    if rest:
        parts.append(f"{duration(rest)} left")
    if report.examples_per_second:
        parts.append(f"{report.examples_per_second:,.0f} examples/s")
    parts.append(metrics(report.metrics))
    return "  ".join(part for part in parts if part)


def metrics(values: Mapping[str, float], digits: int = 3) -> str:
    """Return metrics in one line."""
    return ", ".join(f"{name} {value:.{digits}f}" for name, value in sorted(values.items()))


def duration(seconds: float) -> str:
    """Return seconds as people say them: `48 s`, `2 min 5 s`."""
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
