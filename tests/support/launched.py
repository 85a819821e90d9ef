"""What the launchers of a gang tell in the model of a cluster: that they are at work in the present attempt."""

from collections.abc import Mapping
from typing import Any

from support.factories import launchers_tell
from tfdist.contract import Role
from tfdist.render.gang import GangName, Member
from tfdist_operator.observed.record import stored_record
from tfdist_operator.observed.view import Report


def told(kind: str, status: Mapping[str, Any]) -> Report | None:
    """Return the report of a job's leader; None for a kind of jobs without launchers, or before the start."""
    record = stored_record(status, GangName.TRAINING)
    if record is None or "launchers" not in kind:
        return None
    return launchers_tell(attempt=record.attempt_of(Member(Role.WORKER, 0)))
