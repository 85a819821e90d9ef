"""`TFDIST_JOB` of a worker that trains, and the fields that a script's job may have."""

from typing import Any

WORKER: dict[str, Any] = {
    "name": "fashion",
    "namespace": "team",
    "uid": "u",
    "strategy": "MultiWorkerMirrored",
    "task": "Train",
    "role": "worker",
    "index": 0,
    "attempt": 0,
    "replicas": {"worker": 1},
}
CHECKPOINT = {"directory": "/ckpt", "keep": 3, "restore": "Latest"}
EXPORT = {"directory": "/ckpt/export", "formats": ["Keras"], "which": ["Final"]}
