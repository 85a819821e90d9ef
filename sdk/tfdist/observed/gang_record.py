"""The states of the gangs in the status, which outlive their pods."""

from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import TFDistJobStatus
from tfdist.render.gang import GangName

UNKNOWN_REVISION: Final = "unknown"
"""In place of a fingerprint: the status of the job was overwritten, and its running pods may have any revision."""


def stored_record(status: TFDistJobStatus, gang: GangName) -> GangStatus | None:
    """Return the state of a gang from the status; None if it was never started."""
    record = (status.gangs or {}).get(gang)
    return record if record is None or "last_full_restart" in record.model_fields_set else _completed(record)


def stored_records(status: TFDistJobStatus) -> dict[GangName, GangStatus]:
    """Return the states of the gangs that have started, from the status."""
    return {name: record for name in GangName if (record := stored_record(status, name)) is not None}


def _completed(record: GangStatus) -> GangStatus:
    """Return a state without its last full restart, which another program overwrote, with the newest attempt for it.

    Pods of that attempt go on. What their launchers have reported counts as recorded. A pod cannot join them, so that
    their revision counts as unknown, and the gang restarts as a whole if one is missing.
    """
    return record.with_new_leader().changed(
        last_full_restart=record.attempt, replaced={}, template=UNKNOWN_REVISION, generation=0
    )
