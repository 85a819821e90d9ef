"""Fixed sweeps as the API server stores them, for tests of what the command and the client show."""

from typing import Any, Final

from support.stored_jobs import at, condition
from support.sweeps import sweep_manifest
from tfdist.client.sweep import Sweep


def stored_sweep(name: str, status: dict[str, Any], age: float = 3600, **spec: Any) -> Sweep:
    """Return a sweep that is so many seconds old."""
    document = sweep_manifest(name, **spec)
    document["metadata"] |= {"creationTimestamp": at(age), "generation": 1, "resourceVersion": "12"}
    return Sweep(document | {"status": {"observedGeneration": 1} | status})


def result(trial: int, phase: str, value: float | None = None, reason: str | None = None, **values: Any) -> Any:
    """Return the entry of a trial in the results."""
    fields = {"trial": trial, "phase": phase, "parameters": values, "value": value, "step": None, "reason": reason}
    fields |= {"step": 1407 if phase == "Succeeded" else 400} if value is not None else {}
    return {key: each for key, each in fields.items() if each is not None}


RESULTS: Final = [
    result(0, "Succeeded", 0.8812, learningRate=0.0031, batchSizePerReplica=64),
    result(1, "Stopped", 0.412, "StoppedEarly", learningRate=0.0712, batchSizePerReplica=32),
    result(2, "Succeeded", 0.9034, learningRate=0.00114, batchSizePerReplica=128),
    result(3, "Failed", 0.95, "Crash", learningRate=0.094, batchSizePerReplica=32),
    result(4, "Running", learningRate=0.0009, batchSizePerReplica=64),
]
BEST: Final = {
    "trial": 2,
    "job": "fashion-lr-2",
    "parameters": RESULTS[2]["parameters"],
    "value": 0.9034,
    "step": 1407,
    "checkpoint": "/ckpt/fashion-lr-2/ckpt-1407",
}
PROGRESS: Final = "best accuracy 0.9034 of trial 2 at step 1407 (job fashion-lr-2); 4 of 20 trials have ended, 1 run"
OUTCOME: Final = (
    "best accuracy 0.9034 of trial 2 at step 1407 (job fashion-lr-2); "
    "18 of 20 trials succeeded, 1 were stopped early, 1 failed"
)
RUNNING_SWEEP: Final = stored_sweep(
    "fashion-lr",
    {
        "phase": "Running",
        "conditions": [condition("Running", "True", "TrialsRunning", PROGRESS)],
        "trials": {"total": 20, "running": 1, "succeeded": 2, "stopped": 1, "failed": 1},
        "best": [BEST],
        "results": RESULTS,
    },
    parallelism=4,
)
SUCCEEDED_SWEEP: Final = Sweep(
    {
        **RUNNING_SWEEP.manifest,
        "status": {
            **RUNNING_SWEEP.manifest["status"],
            "phase": "Succeeded",
            "conditions": [condition("Succeeded", "True", "AllTrialsFinished", OUTCOME)],
        },
    }
)
FAILED_SWEEP: Final = stored_sweep(
    "prices",
    {
        "phase": "Failed",
        "conditions": [condition("Failed", "True", "ActiveDeadlineExceeded", "the sweep was active for 600 s")],
        "trials": {"total": 10, "failed": 0},
    },
    age=700,
)
NEW_SWEEP: Final = stored_sweep("new", {}, age=1)
