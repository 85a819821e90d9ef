"""Manifests of sweeps for tests."""

from typing import Any

from support.factories import CHECKPOINT, UID, manifest

PARAMETERS: list[dict[str, Any]] = [
    {"name": "learningRate", "range": {"min": 0.0001, "max": 0.1, "scale": "Log"}},
    {"name": "batchSizePerReplica", "values": [32, 64, 128]},
    {"name": "precision", "field": "runtime.mixedPrecision", "values": ["bfloat16", "float16"]},
    {"name": "warmup", "env": "WARMUP_STEPS", "range": {"min": 0, "max": 1000, "step": 100}},
]


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
