"""Text for the progress and the result of a job; pure, at most 100 columns."""

from collections.abc import Mapping
from typing import Any, Final

WIDTH: Final = 100
BAR: Final = 12
_UNKNOWN: Final = dict.fromkeys(("pod", "exitCode", "reason", "message"), "?")


def progress_line(job: Mapping[str, Any]) -> str:
    """Return phase, a bar, step, speed, the estimated remaining time and metrics, as far as known and fitting."""
    status = job.get("status") or {}
    progress = status.get("progress") or {}
    parts = [f"{status.get('phase') or 'Pending':<10}", bar(progress.get("percent"))]
    if progress.get("step") is not None:
        total = progress.get("totalSteps")
        parts.append(f"{progress['step']}" + (f"/{total}" if total else "") + " steps")
    if progress.get("examplesPerSecond"):
        parts.append(f"{progress['examplesPerSecond']:,.0f} ex/s")
    if progress.get("etaSeconds") is not None and status.get("phase") == "Running":
        parts.append(f"ETA {clock(progress['etaSeconds'])}")
    parts += [f"{name} {value:.3f}" for name, value in sorted((progress.get("metrics") or {}).items())]
    if not progress and status.get("replicas"):
        parts.append(replicas(status["replicas"]))
    while len(line := "  ".join(parts)) > WIDTH:
        parts.pop()  # a truncated number would be wrong
    return line


def bar(percent: int | None) -> str:
    """Return a bar of fixed width for 0 to 100 percent."""
    filled = BAR * min(max(percent or 0, 0), 100) // 100
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {percent or 0:3d} %"


def replicas(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return how many replicas of each role run."""
    return ", ".join(f"{count.get('running', 0)}/{count.get('desired', 0)} {role}" for role, count in counts.items())


def duration(seconds: float) -> str:
    """Return seconds in minutes and seconds, such as `2 min 5 s`."""
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes} min {remainder} s" if minutes else f"{remainder} s"


def clock(seconds: float) -> str:
    """Return seconds as minutes and seconds, short: `1:05`."""
    minutes, remainder = divmod(round(seconds), 60)
    return f"{minutes}:{remainder:02d}"


def result(job: Mapping[str, Any]) -> str:
    """Return the end of a job: the evaluation's metrics and examples, or what went wrong."""
    status = job.get("status") or {}
    if status.get("phase") != "Succeeded":
        return "\n".join([f"the job ended as {status.get('phase')}", *_explanations(status)])
    outcome = (status.get("evaluation") or {}).get("final") or {}
    metrics = ", ".join(f"{name} {value:.4f}" for name, value in sorted((outcome.get("metrics") or {}).items()))
    return (
        f"Succeeded. Evaluation of step {outcome.get('step')}: {metrics} over {outcome.get('examples', 0):,} examples"
        if outcome
        else "Succeeded, without a result of the evaluation"
    )


def _explanations(status: Mapping[str, Any]) -> list[str]:
    lines = [
        f"  {condition['type']}: {condition.get('reason')}: {condition.get('message')}"
        for condition in status.get("conditions") or []
        if condition.get("type") in {"Failed", "Invalid", "Evaluated"} and condition.get("message")
    ]
    lines += [
        "  {pod} ended with {exitCode}: {reason}: {message}".format_map({**_UNKNOWN, **failure})
        for failure in status.get("failures") or []
    ]
    return lines
