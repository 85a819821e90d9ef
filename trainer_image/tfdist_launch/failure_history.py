"""The failures of the rounds under one leader, for its report, and the termination message of a gang that fails."""

from collections.abc import Callable, Sequence

from tfdist.contract import Phase
from tfdist.contract_reports import MAX_REPORTED_FAILURES, GangEnd, ProgressReport, RoundFailure
from tfdist.failure_classification import SECONDARY
from tfdist_launch.failures import ProcessFailure
from tfdist_trainer import log, termination


class FailureHistory:
    """The last `MAX_REPORTED_FAILURES` failures, oldest first."""

    def __init__(self, prefix: str, now_text: Callable[[], str]) -> None:
        """`prefix` makes the identifiers of the failures unique among all leaders of the job."""
        self.failures: list[RoundFailure] = []
        self._prefix = prefix
        self._now_text = now_text
        self.count = 0
        """Failures so far, also those that are dropped."""

    def record(
        self,
        failure: ProcessFailure,
        reason: str,
        number: int,
        step: int | None,
        *,
        counted: bool = False,
        root_cause: bool = False,
        stacks: str = "",
    ) -> None:
        """Add a failure of round `number`; `step` is the last step that a member has reported."""
        self.count += 1
        recorded = RoundFailure(
            id=f"{self._prefix}-{self.count}",
            round=max(number, 0),
            role=failure.role,
            index=failure.index,
            exit_code=failure.exit_code,
            signal=failure.signal,
            reason=reason,
            message=failure.description,
            stacks=stacks or None,
            counted=counted,
            root_cause=root_cause,
            time=self._now_text(),
            step=step,
        )
        self.failures = [*self.failures, recorded][-MAX_REPORTED_FAILURES:]
        if root_cause:
            details = {"replica": failure.name, "reason": reason, "message": recorded.message}
            log.event("round-failed", round=number, step=step, **details)

    def record_secondary(self, failures: Sequence[ProcessFailure], number: int, step: int | None) -> None:
        """Add failures of round `number` that followed from another failure."""
        for failure in failures:
            self.record(failure, SECONDARY, number, step)


def gang_failure_message(
    cause: ProcessFailure, reason: str, remedy: str, end: GangEnd, report: ProgressReport | None
) -> str:
    """Return the termination message that every launcher of a failed gang writes."""
    text = f"{cause.name}: {cause.summary}" if cause.summary else cause.description
    last_report = report or ProgressReport(role=cause.role, index=cause.index, attempt=0, phase=Phase.STARTING)
    return termination.compose(reason, f"{text}; {remedy}" if remedy else text, last_report, end)
