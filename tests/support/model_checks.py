"""Invariants between two successive statuses of the job of `cluster_model`."""

from typing import Any

from tfdist.api.status import TFDistJobStatus
from tfdist.status.phase import is_terminal

BACKOFF_LIMIT = 2


def check_status(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Assert what holds between any status and the next."""
    TFDistJobStatus.model_validate(new)
    if is_terminal(old):
        assert new["phase"] == old["phase"], "a final state was left"
    for gang, record in old.get("gangs", {}).items():
        for number in ("attempt", "floor", "counted", "uncounted"):
            assert record.get(number, 0) <= new["gangs"][gang].get(number, 0), f"{gang} forgot its {number}"
    for record in new.get("gangs", {}).values():
        assert record.get("sinceCheckpoint", 0) <= BACKOFF_LIMIT, "the limit of restarts was exceeded"
    causes = [f for f in old.get("failures", ()) if f["rootCause"]]
    kept = [f for f in new.get("failures", ()) if f["rootCause"]]
    assert len(kept) == 10 or kept[: len(causes)] == causes, "a failure was forgotten"
