"""Progress report and termination message of a replica: the other half of `tfdist.contract`.

The controller reads them from pods, which are untrusted: every value is bounded (`ReportModel`); a value out of bounds
is dropped, and so is a list item that lacks a required field. Unknown fields and enum values are ignored.
"""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

from tfdist.contract import RETURNED_VALUE_BYTES, Phase, Restarts, Role
from tfdist.contract_model import (
    Amount,
    Code,
    Count,
    Identity,
    Lenient,
    LongMessage,
    Message,
    Metrics,
    Path,
    Reason,
    ReportModel,
    Round,
    ShortMessage,
    SmallCount,
    Time,
    keep_first,
    keep_last,
)

SCHEMA_VERSION: Final = 1
"""Version of report and termination message; a field that changes its meaning raises it, a new field does not."""

COMPLETED: Final = "Completed"
"""Reason in the termination message of a program that has ended with 0; any other is the reason of a failure."""

MAX_REPORT_BYTES: Final = 256 * 1024
"""Limit of the body of `GET /v1/progress`; a larger one is rejected."""
MAX_REPORTED_MEMBERS: Final = 32
"""Largest number of members listed in a gang report, whatever the size of the gang."""
MAX_REPORTED_FAILURES: Final = 50
MAX_WAITING_FOR: Final = 16


def _known_phase(value: Any) -> Any:
    return Phase.UNKNOWN if isinstance(value, str) and value not in _PHASES else value


_PHASES: Final = frozenset(str(phase) for phase in Phase)

ReportedPhase = Annotated[Phase, BeforeValidator(_known_phase)]
"""A phase; `unknown` for a phase of a newer version."""
Waits = Annotated[list[Lenient[ShortMessage]], keep_first(MAX_WAITING_FOR)]


class CheckpointReport(ReportModel):
    """The last complete checkpoint."""

    step: Count
    path: Path
    time: Time | None = None


class EvaluationReport(ReportModel):
    """A finished evaluation: checkpoint, exact number of examples, and metrics."""

    step: Count
    checkpoint: Path | None = None
    """None for a validation of `fit` whose model is not saved."""
    metrics: Metrics
    examples: Count | None = None
    """None for a validation of `fit` whose data does not show it."""
    time: Time | None = None


class ExportReport(ReportModel):
    """An exported model; its directory is as in the specification."""

    which: ShortMessage
    """`Final` or `Best`, as in `training.export.which`."""
    step: Count


Exports = Annotated[list[Lenient[ExportReport]], keep_first(2)]


class FunctionReport(ReportModel):
    """What the function of the job has returned; one of the fields is set."""

    value: Annotated[str, Field(max_length=RETURNED_VALUE_BYTES)] | None = None
    """JSON of the value."""
    problem: Message | None = None
    """Why there is no JSON of it."""


class MemberReport(ReportModel):
    """State of one member of a gang, as known to the leading launcher."""

    role: Role
    index: SmallCount
    alive: bool
    """Whether its launcher is connected, and its training process runs and responds."""
    phase: ReportedPhase | None = None
    step: Count | None = None
    input_wait_millis: Amount | None = None


class RoundFailure(ReportModel):
    """A failure that ended a round, or was caused by one; `status.failures` lists failures of pods in the same form."""

    id: Identity
    """Unique in the job; identifies a failure that is reported repeatedly."""
    round: SmallCount
    role: Role
    index: SmallCount
    exit_code: Code | None = None
    signal: Code | None = None
    reason: Reason
    message: Message
    stacks: LongMessage | None = None
    counted: bool = False
    root_cause: bool = False
    time: Time | None = None
    step: Count | None = None


class GangReport(ReportModel):
    """State of the whole gang, as known to the leading launcher; bounded whatever the size of the gang."""

    members: Annotated[list[Lenient[MemberReport]], keep_first(MAX_REPORTED_MEMBERS)] = Field(default_factory=list)
    """Members that are not alive, then the slowest."""
    size: SmallCount | None = None
    """Number of members."""
    alive: SmallCount | None = None
    """Number of members that are alive."""
    phases: Annotated[dict[ReportedPhase, Lenient[SmallCount]], keep_first(len(Phase))] = Field(default_factory=dict)
    """Number of members in each phase."""
    failures: Annotated[list[Lenient[RoundFailure]], keep_last(MAX_REPORTED_FAILURES)] = Field(default_factory=list)
    """The latest failures, oldest first."""
    restarts: Restarts = Field(default_factory=Restarts)
    """Restarts so far, including `LeaderSettings.prior_restarts`."""
    round: Round = -1
    """Number of the newest round; -1 before the first."""
    waiting_for: Waits = Field(default_factory=list)
    """Conditions that the next round waits for; empty while a round runs."""


class GangEnd(ReportModel):
    """The root cause for which all launchers of a gang gave up; each exits with its exit code."""

    role: Role
    index: SmallCount
    round: Round
    reason: Reason
    """Reason of the failure, or `BackoffLimitExceeded`, `RepeatedError` or `FailurePolicy`."""
    restarts: Restarts


class SlowReplica(ReportModel):
    """A replica of a synchronous gang that takes longer for its part of a step, so that the others wait for it.

    Durations are milliseconds in a step, medians of recent steps.
    """

    role: Role
    index: SmallCount
    own_millis: Amount
    """Duration of a step of this replica without its all-reduce, in which replicas wait for one another."""
    others_millis: Amount
    """Median of the same of the other replicas."""
    input_wait_millis: Amount = 0.0
    """Part of `own_millis` in which it waits for its input."""


class ProgressReport(ReportModel):
    """The body of `GET /v1/progress`.

    Times are RFC 3339 in UTC; `examples` is the number processed by the whole gang since the start of training, and
    `examples_per_second` its throughput; durations are milliseconds of this replica.
    """

    schema_version: SmallCount = SCHEMA_VERSION
    role: Role | None = None
    """None for a role of a newer version."""
    index: SmallCount
    attempt: SmallCount
    round: SmallCount = 0
    phase: ReportedPhase
    step: Count | None = None
    total_steps: Count | None = None
    percent: Amount | None = None
    """Completed part of training, 0 to 100, if it does not follow from `step` and `total_steps`: steps of a gang of
    another size had other numbers of examples."""
    epoch: Count | None = None
    examples: Count | None = None
    examples_per_second: Amount | None = None
    step_time_millis: Amount | None = None
    remaining_seconds: Amount | None = None
    """Estimate until training ends, at the time of the step; None while nothing is known."""
    input_wait_millis: Amount | None = None
    exchange_wait_millis: Amount | None = None
    """Time in the all-reduces of a step, of which most is waiting for slower replicas; None if it is not measured."""
    slow_replica: SlowReplica | None = None
    """Only in the report of the leader."""
    metrics: Metrics = Field(default_factory=dict)
    evaluation: EvaluationReport | None = None
    """The newest evaluation."""
    best_evaluation: EvaluationReport | None = None
    """The evaluation of the best checkpoint so far, chosen by the evaluator."""
    final_evaluation: EvaluationReport | None = None
    """The evaluation of the last checkpoint of a finished training."""
    last_checkpoint: CheckpointReport | None = None
    saves_checkpoints: bool | None = None
    """Whether the trainer saves the checkpoints of the job in this process: of its own programs, or of `fit`."""
    trains_alone: bool | None = None
    """Whether `fit` trains a model of this worker alone, though its gang has several workers."""
    untested_versions: ShortMessage | None = None
    """Versions of Keras and TensorFlow that the trainer was not tested with, so that `fit` was left to Keras."""
    exports: Exports = Field(default_factory=list)
    returned: FunctionReport | None = None
    """Of a script that calls a function (`tfdist.job`)."""
    step_at: Time | None = None
    gang: GangReport | None = None
    """The state of the gang; only in the report of the leader."""
    waiting_for: Waits = Field(default_factory=list)
    """Addresses of pending members: this replica starts once all have joined the rendezvous."""


class TerminationMessage(ReportModel):
    """Termination message of a replica: JSON, written to its termination log before it exits.

    It has at most 1 KiB, and the value that a function has returned.
    """

    schema_version: SmallCount = SCHEMA_VERSION
    reason: ShortMessage
    message: LongMessage
    step: Count | None = None
    total_steps: Count | None = None
    """A job may end before its report was requested."""
    percent: Amount | None = None
    """See `ProgressReport`."""
    epoch: Count | None = None
    attempt: SmallCount | None = None
    metrics: Metrics = Field(default_factory=dict)
    """The last training metrics: the progress report ends with the pod."""
    last_checkpoint: CheckpointReport | None = None
    evaluation: EvaluationReport | None = None
    """The result of an evaluation gang, or the last one of the evaluator."""
    best_evaluation: EvaluationReport | None = None
    """The evaluation of the best checkpoint."""
    saves_checkpoints: bool | None = None
    """See `ProgressReport`."""
    trains_alone: bool | None = None
    """See `ProgressReport`."""
    untested_versions: ShortMessage | None = None
    """See `ProgressReport`."""
    exports: Exports = Field(default_factory=list)
    returned: FunctionReport | None = None
    """See `ProgressReport`."""
    gang_end: GangEnd | None = None
    """Set by a launcher that gave up: the leader's report of the last round ends with its pod."""
