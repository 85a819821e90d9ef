"""The states of the gangs in the status, which outlive their pods."""

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import TFDistJobStatus
from tfdist.render.gang import GangName


def stored_record(status: TFDistJobStatus, gang: GangName) -> GangStatus | None:
    """Return the state of a gang from the status; None if it was never started."""
    return (status.gangs or {}).get(gang)


def stored_records(status: TFDistJobStatus) -> dict[GangName, GangStatus]:
    """Return the states of the gangs that have started, from the status."""
    return {name: record for name in GangName if (record := stored_record(status, name)) is not None}
