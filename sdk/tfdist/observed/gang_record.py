"""The record of a gang: its state in the status, which outlives its pods."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import ConfigDict

from tfdist.api.gang_status import GangStatus
from tfdist.contract import Restarts
from tfdist.render.gang import GangName, Member


class GangRecord(GangStatus):
    """The state of one gang, with the changes that a restart makes. Unknown fields of a newer version are ignored."""

    model_config = ConfigDict(extra="ignore")

    attempt: int = 0

    def changed(self, **changes: Any) -> Self:
        """Return the record with other values of some fields.

        Raises:
            TypeError: a name is not a field.
        """
        unknown = changes.keys() - type(self).model_fields.keys()
        if unknown:
            msg = f"no fields of a gang's record: {', '.join(sorted(unknown))}"
            raise TypeError(msg)
        return self.model_copy(update=changes)

    def attempt_of(self, member: Member) -> int:
        """Return the current attempt of a member."""
        return self.replaced.get(member.name, self.last_full_restart)

    def next_attempt(self, *, retry_after: str = "") -> Self:
        """Return the record of a gang whose members all restart, not before `retry_after` (RFC 3339)."""
        number = self.attempt + 1
        return self.with_new_leader().changed(
            attempt=number,
            last_full_restart=number,
            replaced={},
            pending_replacements=frozenset(),
            completed=frozenset(),
            has_run=False,
            in_place=False,
            released=0,
            retry_after=retry_after,
        )

    def with_new_leader(self) -> Self:
        """Return the record of a gang with a new leader pod: its launcher starts with all restarts so far."""
        return self.changed(
            launcher_counted=self.counted,
            launcher_uncounted=self.uncounted,
            last_recorded_failure="",
            progress=None,
        )

    @property
    def restarts(self) -> Restarts:
        """The restart counters."""
        return Restarts.model_construct(**{name: getattr(self, name) for name in Restarts.model_fields})

    def prior_restarts(self) -> Restarts:
        """Return the restart counters for the launcher of a new leader pod."""
        reported = {"counted": self.launcher_counted, "uncounted": self.launcher_uncounted}
        return self.restarts.model_copy(update=reported)


def stored_record(status: Mapping[str, Any], gang: GangName) -> GangRecord | None:
    """Return the record of a gang from the status; None where it was never started."""
    stored = status.get("gangs", {}).get(str(gang))
    return None if stored is None else GangRecord.model_validate(stored)


def stored_records(status: Mapping[str, Any]) -> dict[GangName, GangRecord]:
    """Return the records of the gangs that have started, from the status."""
    return {name: record for name in GangName if (record := stored_record(status, name)) is not None}
