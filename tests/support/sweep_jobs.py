"""Statuses of the jobs of trials, for tests of planning."""

from typing import Any

from support.statuses import status_of
from tfdist.sweep_planner import TrialJob


def trial_job(phase: str = "Running", value: float | None = None, step: int = 100, **fields: Any) -> TrialJob:
    """Return the job of a trial in a phase, with a value of `accuracy` at a training step.

    Args:
        phase: `Running`, `Suspended`, `Succeeded` or `Failed`.
        value: of the newest and best evaluation; None without one.
        step: of that evaluation.
        fields: fields of `TrialJob`, and `reason` and `message` of the end.
    """
    end = {"reason": fields.pop("reason", "Crash"), "message": fields.pop("message", "worker-0 ended with code 1")}
    types = {"Suspended": {"reason": "Suspended"}, "Failed": end}
    condition = {"type": phase, "status": "True", "reason": phase} | types.get(phase, {})
    status: dict[str, Any] = {"phase": phase, "conditions": [condition], "usage": {"gpuSeconds": 5.0}}
    if value is not None:
        result = {"step": step, "metrics": {"accuracy": value}, "checkpoint": f"/checkpoints/{step}"}
        status["evaluation"] = {"latest": result, "best": result}
    return TrialJob(status=status_of(status), **fields)
