"""Manifests of sweeps for tests."""

from typing import Any

from support.factories import CHECKPOINT, UID, manifest

PARAMETERS: list[dict[str, Any]] = [
    {"name": "learningRate", "range": {"min": 0.0001, "max": 0.1, "scale": "Log"}},
    {"name": "batchSizePerReplica", "values": [32, 64, 128]},
    {"name": "precision", "field": "runtime.mixedPrecision", "values": ["bfloat16", "float16"]},
    {"name": "warmup", "env": "WARMUP_STEPS", "range": {"min": 0, "max": 1000, "step": 100}},
]
NOW = "2030-01-01T00:00:00Z"
FULL: dict[str, Any] = {
    "metric": "accuracy",
    "goal": "Maximize",
    "search": {"method": "Random", "trials": 40, "seed": 7},
    "parallelism": 4,
    "earlyStopping": {"method": "Asha", "minSteps": 200, "reduction": 3, "maxRungs": 4, "resume": True},
    "targetValue": 0.99,
    "maxFailedTrials": 2,
    "keepBest": 3,
    "cleanTrials": "AllButBest",
    "suspend": False,
    "activeDeadlineSeconds": 3600,
    "ttlSecondsAfterFinished": 60,
}
"""Every field of the specification but `parameters` and `template`, which `sweep_manifest` sets."""
STATUS: dict[str, Any] = {
    "phase": "Running",
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "TrialsRunning",
            "message": "2 trials run",
            "observedGeneration": 1,
            "lastTransitionTime": NOW,
        }
    ],
    "observedGeneration": 1,
    "trials": {"total": 40, "running": 2, "succeeded": 1, "stopped": 3, "failed": 0},
    "best": [
        {
            "trial": 2,
            "job": "fashion-lr-2",
            "parameters": {"learningRate": 0.01, "layers": [64, "wide", {"units": 0.5}]},
            "value": 0.91,
            "step": 600,
            "checkpoint": "/ckpt/fashion-lr-2/ckpt-600",
        }
    ],
    "results": [
        {
            "trial": 2,
            "phase": "Succeeded",
            "parameters": {"learningRate": 0.01},
            "value": 0.91,
            "step": 600,
            "reason": "Completed",
        }
    ],
    "rungs": [{"step": 200, "values": {"0": 0.5, "2": 0.75}}],
    "activeSince": NOW,
    "startTime": NOW,
    "completionTime": NOW,
}
"""Every field of the status."""


def sweep_manifest(name: str = "fashion-lr", template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return the JSON of a sweep over a job with checkpoints and evaluation, changed by `spec`.

    Args:
        name: name of the sweep.
        template: fields of the job's specification to replace.
        spec: fields of the sweep's specification to replace; a value of None removes the field.
    """
    job = manifest(checkpoint=CHECKPOINT, evaluation={"mode": "Continuous"})["spec"] | (template or {})
    fields = {"parameters": PARAMETERS, "template": {"spec": job}} | spec
    return {
        "apiVersion": "tfdist.dev/v1alpha1",
        "kind": "TFDistSweep",
        "metadata": {"name": name, "namespace": "team", "uid": UID},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }
