"""What a replica tells: the other half of `tfdist.contract`, by the same rules."""

from pydantic import Field

from tfdist.contract import Phase, Restarts, Role
from tfdist.contract_model import ContractModel, Metrics


class CheckpointReport(ContractModel):
    """The last complete checkpoint. `time` is RFC 3339 in UTC."""

    step: int
    path: str
    time: str


class EvaluationReport(ContractModel):
    """A finished evaluation: which checkpoint, over exactly how many examples, with which metrics."""

    step: int
    checkpoint: str
    metrics: Metrics
    examples: int
    time: str


class MemberReport(ContractModel):
    """One member of a gang, as the leader knows it."""

    role: Role
    index: int
    alive: bool
    """Whether its launcher is connected and its program runs and answers."""
    phase: Phase | None = None
    step: int | None = None
    input_wait_millis: float | None = None


class RoundFailure(ContractModel):
    """One failure that ended a round, or followed from one; as `status.failures` records those of pods."""

    id: str
    """Unique in the job: the same failure is told in many reports."""
    round: int
    role: Role
    index: int
    exit_code: int | None = None
    signal: int | None = None
    reason: str
    message: str
    stacks: str | None = None
    counted: bool = False
    root_cause: bool = False
    time: str
    step: int | None = None


class GangReport(ContractModel):
    """The whole gang, as the launcher that leads it sees it."""

    members: list[MemberReport]
    failures: list[RoundFailure] = Field(default_factory=list)
    """The latest, oldest first."""
    restarts: Restarts = Field(default_factory=Restarts)
    """Including those of `LeaderSettings.used`."""
    round: int = -1
    """The newest round that its leader knows of; -1 before the first."""
    waiting_for: list[str] = Field(default_factory=list)
    """What the next round waits for, in words; empty while one runs."""


class GangEnd(ContractModel):
    """Why the launchers of a gang gave up; each of them exits with the code of this root cause."""

    role: Role
    index: int
    round: int
    reason: str
    """As `reason` of the failure, or `BackoffLimitExceeded`, `RepeatedError`, `FailurePolicy`."""
    restarts: Restarts


class ProgressReport(ContractModel):
    """The body of `GET /v1/progress`.

    Times are RFC 3339 in UTC; `examples` counts those of the whole gang since the start of training;
    `examples_per_second` is the whole gang's; durations are milliseconds of this replica.
    """

    role: Role
    index: int
    attempt: int
    round: int = 0
    phase: Phase
    step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    examples: int | None = None
    examples_per_second: float | None = None
    step_time_millis: float | None = None
    input_wait_millis: float | None = None
    metrics: Metrics = Field(default_factory=dict)
    evaluation: EvaluationReport | None = None
    """The newest result of an evaluation."""
    best_evaluation: EvaluationReport | None = None
    """That of the best checkpoint, as the evaluator beside training judges."""
    final_evaluation: EvaluationReport | None = None
    """That of the last checkpoint of a finished training, once the evaluator has scored it."""
    last_checkpoint: CheckpointReport | None = None
    step_at: str | None = None
    gang: GangReport | None = None
    """Of the leader: the whole gang."""
    waiting_for: list[str] = Field(default_factory=list)
    """The addresses of members that have to come before this one can begin."""


class TerminationMessage(ContractModel):
    """What a replica writes to its termination log before it exits, at most 1 KiB in all."""

    reason: str
    message: str
    step: int | None = None
    attempt: int | None = None
    metrics: Metrics = Field(default_factory=dict)
    """The last training metrics: what the report port last said is gone with the pod."""
    last_checkpoint: CheckpointReport | None = None
    evaluation: EvaluationReport | None = None
    """The result of an evaluation gang, or the evaluator's last one, for the same reason."""
    best_evaluation: EvaluationReport | None = None
    """What the evaluator found best."""
    gang_end: GangEnd | None = None
    """Of a launcher that gave up: the report of the last round is gone with the leader."""
