"""The state of a gang in the status of its job: what the controller keeps, and how it is scheduled."""

from typing import Annotated, Any, Final, Self

from pydantic import Field, PlainSerializer, WithJsonSchema

from tfdist.api.base import ApiModel
from tfdist.api.gang_system import GangSystem
from tfdist.api.scalars import Time, Whole
from tfdist.contract import Restarts

ShortText = Annotated[str, Field(max_length=253)]
MAX_REPLICAS: Final = 65536
"""Bound of lists that name replicas or nodes: more than a job has."""

ReplicaNames = Annotated[
    frozenset[ShortText],
    PlainSerializer(sorted),
    WithJsonSchema({"type": "array", "items": {"type": "string", "maxLength": 253}, "maxItems": MAX_REPLICAS}),
]
"""Names of replicas, such as `worker-3`; a sorted list in the status."""


class GangProgress(ApiModel):
    """Progress of the leader of an attempt: `progressDeadlineSeconds` counts from it after a controller restart."""

    attempt: int
    """Attempt of the leader that reported."""
    role: ShortText
    """Role of that leader: an evaluation has the attempt numbers of its own gang."""
    position: Annotated[str, Field(max_length=253)]
    """Round, phase, step and checkpoint of the last report that differed from the one before."""
    changed_at: Time
    """When that report was received."""
    longest_pause_seconds: float
    """Longest time between two changes."""
    changes: int
    """Number of changes."""


class GangStatus(ApiModel):
    """State of one gang, for the controller itself; an absent field has its initial value."""

    attempt: int = Field(default_factory=int)
    """Number of the newest attempt, from 0; every restart, of all replicas or of one alone, begins a new one."""
    last_full_restart: int = Field(default_factory=int)
    """Attempt in which all replicas were last started together; pods of earlier ones are stale."""
    replaced: Annotated[dict[str, int], Field(max_length=MAX_REPLICAS)] = Field(default_factory=dict)
    """Replicas that were replaced alone since, and their attempts."""
    pending_replacements: ReplicaNames = Field(default_factory=frozenset)
    """Replaced replicas that have not run yet."""
    completed: ReplicaNames = Field(default_factory=frozenset)
    """Replicas that succeeded in this attempt; they do not start again, also without their pods."""
    has_run: bool = Field(default_factory=bool)
    """Whether all replicas have run in this attempt; a missing pod was deleted then."""
    counted: int = Field(default_factory=int)
    """Restarts that count towards backoffLimit, in total."""
    uncounted: int = Field(default_factory=int)
    """Restarts caused by the cluster, in total."""
    since_checkpoint: int = Field(default_factory=int)
    """Restarts that count, since the last new checkpoint."""
    uncounted_since_checkpoint: int = Field(default_factory=int)
    """Restarts caused by the cluster, since the last new checkpoint."""
    checkpoint_step: int = Field(default_factory=lambda: -1)
    """Step of the newest checkpoint at the last restart; -1 without one."""
    short_attempts: int = Field(default_factory=int)
    """Attempts in a row that ran for less than ten minutes; only an attempt that runs longer ends the back-off."""
    retry_after: Time = Field(default_factory=str)
    """End of the back-off: when the pods of the attempt may be created, RFC 3339; "" for at once."""
    released: int = Field(default_factory=int)
    """How often in a row the gang has released the nodes of a part of its replicas because the others had none."""
    system: GangSystem = Field(default_factory=lambda: GangSystem.NONE)
    """Gang scheduler of the pods of this attempt: a replica that is replaced alone belongs to the same."""
    in_place: bool = Field(default_factory=bool)
    """Whether launchers restart the processes of this attempt in place; true after their first report."""
    launcher_counted: int = Field(default_factory=int)
    """Restarts that count, by the last report of the leading launcher."""
    launcher_uncounted: int = Field(default_factory=int)
    """Restarts that do not count, by the last report of the leading launcher."""
    last_recorded_failure: Annotated[str, Field(max_length=1024)] = Field(default_factory=str)
    """Identity of the last failure that was recorded from its reports."""
    template: ShortText = Field(default_factory=str)
    """Fingerprint of the pods of this attempt."""
    generation: int = Field(default_factory=int)
    """Generation of the specification of the pods of this attempt; 0 if it is not known."""
    excluded_nodes: Annotated[tuple[ShortText, ...], Field(max_length=MAX_REPLICAS)] = Field(default_factory=tuple)
    """Nodes on which two attempts in a row failed."""
    progress: GangProgress | None = None
    """Progress of the attempt, if `progressDeadlineSeconds` is set."""

    def to_json(self) -> dict[str, Any]:
        """Return the state as the status stores it, without initial values but for the numbers of the attempt."""
        numbers = {"attempt": self.attempt, "lastFullRestart": self.last_full_restart}
        return numbers | self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def changed(self, **changes: Any) -> Self:
        """Return the record with other values of some fields.

        Raises:
            TypeError: a name is not a field.
        """
        unknown = changes.keys() - type(self).model_fields.keys()
        if unknown:
            msg = f"no fields of a gang's record: {', '.join(sorted(unknown))}"
            raise TypeError(msg)
        is_unchanged = all(getattr(self, name) == value for name, value in changes.items())
        return self if is_unchanged else self.model_copy(update=changes)

    def attempt_of(self, replica: str) -> int:
        """Return the current attempt of a replica, such as `worker-3`."""
        return self.replaced.get(replica, self.last_full_restart)

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


class SchedulingStatus(ApiModel):
    """Scheduling of the current gang."""

    system: GangSystem
    """Gang scheduler of its pods: the one that `scheduling.gang: Auto` chose, or that the job requests."""
    queue: ShortText | None = None
    """Queue that the job waits in, or whose quota it uses."""
    position: Whole | None = None
    """Position in the queue, from 1, up to 100; not set if Kueue does not serve its API of pending Workloads."""
    reason: Annotated[str | None, Field(max_length=1024)] = None
    """Message of the scheduler while a replica waits for a node, or of Kueue while the job waits in its queue."""
    since: Time | None = None
    """Time since when it waits."""
