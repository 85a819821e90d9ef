"""The metric of a trial, by the status of its job."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfdist.api.sweep import TFDistSweepSpec
from tfdist.sweeps.early_stopping import Point, is_better

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """The metric of a trial by the status of its job."""

    latest: Point | None = None
    """The newest value."""
    best: Point | None = None
    """The best value that the status has: of all evaluations, or the newest one."""
    checkpoint: str = ""
    """Path of the checkpoint with the best value; "" if it is not known."""


def observe(spec: TFDistSweepSpec, status: Json) -> Observation:
    """Return the metric of a trial from the status of its job."""
    name = spec.metric_name
    if name is None:
        return Observation()
    if not spec.evaluates:
        progress: Json = status.get("progress") or {}
        latest = _point(progress, name)
        return Observation(latest, latest, str((progress.get("lastCheckpoint") or {}).get("path", "")))
    evaluation: Json = status.get("evaluation") or {}
    results = [evaluation.get(which) or {} for which in ("latest", "best", "final")]
    points = [(point, result) for result in results if (point := _point(result, name)) is not None]
    best: tuple[Point | None, Json] = (None, {})
    for point, result in points:
        if is_better(point.value, best[0].value if best[0] else None, maximizes=spec.maximizes):
            best = point, result
    newest = max((point for point, _ in points), key=lambda point: point.step, default=None)
    return Observation(newest, best[0], str(best[1].get("checkpoint", "")))


def _point(result: Json, name: str) -> Point | None:
    """Return the metric of an evaluation, or of progress; None without it."""
    value, step = (result.get("metrics") or {}).get(name), result.get("step")
    return None if value is None or step is None else Point(int(step), float(value))
