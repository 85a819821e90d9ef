"""The Secret with the key of a job's launchers, and the variable by which their pods get it (ADR 32)."""

from typing import Any, Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract import LAUNCH_KEY_ENV
from tfdist.render import names
from tfdist.render.metadata import Manifest, metadata

_KEY: Final = "key"


def launcher_secret(job: TFDistJob, key: str) -> Manifest:
    """Return the Secret; it is immutable, because all pods of an attempt must get the same key."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, names.launcher_secret(job)),
        "type": "Opaque",
        "immutable": True,
        "stringData": {_KEY: key},
    }


def key_variable(job: TFDistJob) -> dict[str, Any]:
    """Return the environment variable with the key, for the container `tensorflow`."""
    reference = {"name": names.launcher_secret(job), "key": _KEY}
    return {"name": LAUNCH_KEY_ENV, "valueFrom": {"secretKeyRef": reference}}
