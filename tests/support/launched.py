"""Reports of a gang's leader in the model of a cluster: of its launchers, or hostile ones."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from support.factories import NOW, launcher_report
from support.hostile_reports import GANG, REPORT
from support.statuses import status_of
from tfdist.contract_reports import ProgressReport
from tfdist.observed.gang_record import stored_record
from tfdist.observed.job_view import TimestampedReport
from tfdist.render.gang import GangName
from tfdist.timestamps import rfc3339

_MADE_UP: Final = [
    {
        "id": f"a-{n}",
        "round": n,
        "role": role,
        "index": n % 3,
        "reason": f"R{n}",
        "message": "x" * 900,
        "rootCause": True,
    }
    for n, role in enumerate(["worker", "chief", "ps", "king"] * 10)
]
HOSTILE: Final[tuple[dict[str, Any], ...]] = (
    REPORT,
    {"step": 10**400, "totalSteps": -1, "metrics": {"a\n": 1e400}, "lastCheckpoint": {"step": 2**53 - 1, "path": "/c"}},
    {"gang": GANG | {"failures": _MADE_UP, "restarts": {"counted": -1}, "round": 2**40}},
    {"gang": {"waitingFor": ["x" * 900] * 900, "round": 3}, "phase": "loading"},
)
"""Each replaces fields of a report of the present attempt."""


def gang_report(kind: str, status: Mapping[str, Any], hostile: int | None = None) -> TimestampedReport | None:
    """Return the report of a job's leader; None for a kind of jobs without launchers, or before the start.

    `hostile` is the number of a hostile one, which a job of any kind may give.
    """
    record = stored_record(status_of(status), GangName.TRAINING)
    if record is not None and hostile is not None:
        return _hostile(hostile % len(HOSTILE), record.last_full_restart)
    if record is None or "launchers" not in kind:
        return None
    return launcher_report(attempt=record.attempt_of("worker-0"))


@cache
def _hostile(number: int, attempt: int) -> TimestampedReport:
    body = json.dumps(REPORT | {"gang": None} | HOSTILE[number] | {"attempt": attempt})
    return TimestampedReport(ProgressReport.model_validate_json(body), rfc3339(NOW))
