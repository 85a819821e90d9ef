"""The metric of a trial, by the status of its job."""

from dataclasses import dataclass

from tfdist.api.status import EvaluationResult, EvaluationStatus, Progress, TFDistJobStatus
from tfdist.api.sweep import TFDistSweepSpec
from tfdist.sweeps.early_stopping import Point, is_better


@dataclass(frozen=True, slots=True)
class Observation:
    """The metric of a trial by the status of its job."""

    latest: Point | None = None
    """The newest value."""
    best: Point | None = None
    """The best value that the status has: of all evaluations, or the newest one."""
    checkpoint: str = ""
    """Path of the checkpoint with the best value; "" if it is not known."""


def observe(spec: TFDistSweepSpec, status: TFDistJobStatus) -> Observation:
    """Return the metric of a trial from the status of its job."""
    name = spec.metric_name
    if name is None:
        return Observation()
    if not spec.evaluates:
        progress = status.progress or Progress()
        latest = _point(progress, name)
        return Observation(latest, latest, progress.last_checkpoint.path if progress.last_checkpoint else "")
    evaluation = status.evaluation or EvaluationStatus()
    results = [each for each in (evaluation.latest, evaluation.best, evaluation.final) if each is not None]
    points = [(point, result) for result in results if (point := _point(result, name)) is not None]
    best, checkpoint = None, ""
    for point, result in points:
        if is_better(point.value, best.value if best else None, maximizes=spec.maximizes):
            best, checkpoint = point, result.checkpoint or ""
    newest = max((point for point, _ in points), key=lambda point: point.step, default=None)
    return Observation(newest, best, checkpoint)


def _point(result: EvaluationResult | Progress, name: str) -> Point | None:
    """Return the metric of an evaluation, or of progress; None without it."""
    value = (result.metrics or {}).get(name)
    return None if value is None or result.step is None else Point(result.step, value)
