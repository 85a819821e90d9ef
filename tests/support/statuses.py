"""Statuses from JSON, with ordinary values for what a test does not set."""

from collections.abc import Mapping
from typing import Any

from tfdist.api.status import TFDistJobStatus
from tfdist.outcome import read_status
from tfdist.status.phase import is_terminal

_TIME = "2030-01-02T03:00:00Z"
STATED: dict[str, Any] = {"message": "", "observedGeneration": 1, "lastTransitionTime": _TIME}
"""What a condition has in addition to its type, status and reason."""
_CONDITION = {"reason": "Because"} | STATED
_FAILURE = {
    "time": _TIME,
    "attempt": 0,
    "role": "worker",
    "index": 0,
    "pod": "",
    "reason": "Crash",
    "message": "",
    "counted": True,
    "rootCause": True,
}
_COUNTS = dict.fromkeys(("desired", "pending", "running", "ready", "succeeded", "failed"), 0)


def status_of(stored: Mapping[str, Any]) -> TFDistJobStatus:
    """Return the status that `stored` is the JSON of."""
    status = dict(stored)
    for name, ordinary in (("conditions", _CONDITION), ("failures", _FAILURE)):
        if name in status:
            status[name] = [{**ordinary, **each} if isinstance(each, Mapping) else each for each in status[name]]
    if "replicas" in status:
        status["replicas"] = {role: _COUNTS | counts for role, counts in status["replicas"].items()}
    if "gangs" in status:
        status["gangs"] = {name: {"attempt": 0} | gang for name, gang in status["gangs"].items()}
    return read_status(status)


def is_finished(stored: Mapping[str, Any]) -> bool:
    """Return whether a job with this status has succeeded or failed."""
    return is_terminal(read_status(stored))
