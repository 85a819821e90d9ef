"""The history of a job in its status: what it used, its attempts, and its progress over time."""

from typing import Annotated, Final

from pydantic import Field

from tfdist.api.base import ApiModel
from tfdist.api.gang_status import ShortText
from tfdist.api.scalars import Amount, Time, Whole

MAX_ATTEMPTS: Final = 20
MAX_POINTS: Final = 120
MAX_POINT_METRICS: Final = 8


class Usage(ApiModel):
    """Resource usage, summed over all replicas and attempts.

    The usage at a later time is the stored one and `gpus` or `cpus` times the seconds since `updatedAt`.
    """

    gpu_seconds: Amount | None = None
    """GPU seconds: limits of `nvidia.com/gpu` and other resources that end in `/gpu`, while a pod has a node."""
    cpu_seconds: Amount | None = None
    """CPU seconds, of the requested cores of the containers `tensorflow`."""
    gpus: Amount | None = None
    """GPUs in use at `updatedAt`."""
    cpus: Amount | None = None
    """Requested cores in use at `updatedAt`."""
    updated_at: Time | None = None
    """Time up to which the seconds are counted."""
    productive_seconds: Amount | None = None
    """Seconds of the gang in training steps that were kept: number of steps times the reported time of a step."""
    lost_seconds: Amount | None = None
    """Seconds of the gang in training steps that were repeated after a restart."""
    step: Whole | None = None
    """Training step up to which the seconds of training are counted."""


class AttemptStatus(ApiModel):
    """An attempt, or a round of it if the launchers restart the gang in place."""

    attempt: int
    """Number of the attempt, from 0."""
    round: int | None = None
    """Round of the attempt, from 0, if the launchers restart the gang in place."""
    started_at: Time
    """Time at which it began: its pods are created then."""
    ended_at: Time | None = None
    """Time at which it ended. Not set while it runs."""
    reason: Annotated[str | None, Field(max_length=256)] = None
    """Reason of its end, such as `Crash`, `Suspended` or `TrainingSucceeded`."""
    root_cause: ShortText | None = None
    """Replica whose failure ended it, such as `worker-3`."""
    node: ShortText | None = None
    """Node of that replica."""
    from_step: Whole | None = None
    """Training step of the checkpoint that it began from; 0 without one."""
    to_step: Whole | None = None
    """Last reported training step."""
    seconds_to_recover: Whole | None = None
    """Seconds from its end, or from the resume, until all replicas ran again."""


class ProgressPoint(ApiModel):
    """Training progress at one time."""

    step: Whole
    """Number of completed training steps."""
    time: Time
    """Time at which the controller received the report."""
    metrics: Annotated[dict[str, float] | None, Field(max_length=MAX_POINT_METRICS)] = None
    """Training metrics, to 6 digits."""
    examples_per_second: Amount | None = None
    """Training throughput of the whole gang, in examples per second."""
