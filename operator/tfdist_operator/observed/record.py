"""What the status remembers of a gang: how often it was started and why, when its pods can no longer tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tfdist.render.gang import GangName, Member


def replica_name(member: Member) -> str:
    """Return how people call a replica: `worker-3`."""
    return f"{member.role}-{member.index}"


@dataclass(frozen=True, slots=True)
class GangRecord:
    """One gang. Attempts count from 0; every restart, of all members or of one alone, makes a new one."""

    attempt: int = 0
    """The newest attempt."""
    floor: int = 0
    """The attempt in which all members were last started together; pods of earlier ones are of the past."""
    replaced: Mapping[str, int] = field(default_factory=dict)
    """Members that were since replaced alone, by name, and their attempts."""
    starting: frozenset[str] = frozenset()
    """Those of them that have not been seen to run."""
    completed: frozenset[str] = frozenset()
    """Members that ended with success in this attempt; their pods may be gone."""
    ran: bool = False
    """Whether all members have run in this attempt: a pod that is missing was deleted then."""
    counted: int = 0
    """Restarts that count, in all."""
    uncounted: int = 0
    """Restarts that the cluster caused, in all."""
    since_checkpoint: int = 0
    """Restarts that count, since the last new checkpoint."""
    free_since_checkpoint: int = 0
    """Restarts that do not count, since the last new checkpoint."""
    checkpoint_step: int = -1
    """Step of the newest checkpoint at the last restart."""
    not_before: str = ""
    """When the members may be created, RFC 3339; "" means at once."""
    launched: bool = False
    """Whether launchers have told of this attempt: they restart its programs in place."""
    told_counted: int = 0
    """Of the restarts that count, those that the leading launcher knew of when it told last."""
    told_uncounted: int = 0
    """The same of those that do not count."""
    told_failure: str = ""
    """The last failure that it told of."""
    template: str = ""
    """Fingerprint of what the members of this attempt were made of."""
    avoided: tuple[str, ...] = ()
    """Nodes on which two attempts in a row failed."""

    def attempt_of(self, member: Member) -> int:
        """Return the attempt in which a member is now."""
        return self.replaced.get(replica_name(member), self.floor)

    def next_attempt(self, **changes: Any) -> "GangRecord":
        """Return the record of a gang of which all members start anew."""
        number = self.attempt + 1
        fresh: dict[str, Any] = {"attempt": number, "floor": number, "replaced": {}, "starting": frozenset()}
        return replace(self.told_anew(), **fresh, completed=frozenset(), ran=False, launched=False, **changes)

    def told_anew(self) -> "GangRecord":
        """Return the record of a gang whose leader is made anew, and is told of all restarts so far."""
        return replace(self, told_counted=self.counted, told_uncounted=self.uncounted, told_failure="")

    def to_json(self) -> dict[str, Any]:
        """Return the record as the status stores it, without what is as at the beginning."""
        values: dict[str, Any] = {
            "attempt": self.attempt,
            "floor": self.floor,
            "replaced": dict(sorted(self.replaced.items())),
            "starting": sorted(self.starting),
            "completed": sorted(self.completed),
            "ran": self.ran,
            "counted": self.counted,
            "uncounted": self.uncounted,
            "sinceCheckpoint": self.since_checkpoint,
            "freeSinceCheckpoint": self.free_since_checkpoint,
            "checkpointStep": self.checkpoint_step,
            "notBefore": self.not_before,
            "launched": self.launched,
            "toldCounted": self.told_counted,
            "toldUncounted": self.told_uncounted,
            "toldFailure": self.told_failure,
            "template": self.template,
            "avoided": list(self.avoided),
        }
        return {k: v for k, v in values.items() if k == "attempt" or v != _INITIAL.get(k)}


_INITIAL: Mapping[str, Any] = {
    "floor": 0,
    "replaced": {},
    "starting": [],
    "completed": [],
    "ran": False,
    "counted": 0,
    "uncounted": 0,
    "sinceCheckpoint": 0,
    "freeSinceCheckpoint": 0,
    "checkpointStep": -1,
    "notBefore": "",
    "launched": False,
    "toldCounted": 0,
    "toldUncounted": 0,
    "toldFailure": "",
    "template": "",
    "avoided": [],
}


def stored_record(status: Mapping[str, Any], gang: GangName) -> GangRecord | None:
    """Return what the status remembers of a gang; None where it was never started."""
    stored = status.get("gangs", {}).get(str(gang))
    if stored is None:
        return None
    values = {**_INITIAL, **stored}
    return GangRecord(
        attempt=values["attempt"],
        floor=values["floor"],
        replaced=values["replaced"],
        starting=frozenset(values["starting"]),
        completed=frozenset(values["completed"]),
        ran=values["ran"],
        counted=values["counted"],
        uncounted=values["uncounted"],
        since_checkpoint=values["sinceCheckpoint"],
        free_since_checkpoint=values["freeSinceCheckpoint"],
        checkpoint_step=values["checkpointStep"],
        not_before=values["notBefore"],
        launched=values["launched"],
        told_counted=values["toldCounted"],
        told_uncounted=values["toldUncounted"],
        told_failure=values["toldFailure"],
        template=values["template"],
        avoided=tuple(values["avoided"]),
    )
