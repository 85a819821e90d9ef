"""The failures of the rounds of this launcher, for the leader's report, and the last words when it gives up."""

from collections.abc import Callable
from typing import Final

from tfdist.contract import Phase
from tfdist.contract_reports import GangEnd, ProgressReport, RoundFailure
from tfdist_launch.limits import Casualty
from tfdist_trainer import log, termination

KEPT: Final = 50
"""Failures that a report holds: the controller asks every few seconds, and keeps fewer itself."""


class History:
    """Failures, oldest first."""

    def __init__(self, prefix: str, now_text: Callable[[], str]) -> None:
        """`prefix` tells this launcher from all other leaders of the job."""
        self.failures: list[RoundFailure] = []
        self._prefix = prefix
        self._now_text = now_text
        self._count = 0

    def record(
        self,
        casualty: Casualty,
        reason: str,
        number: int,
        step: int | None,
        *,
        counted: bool = False,
        root_cause: bool = False,
        stacks: str = "",
    ) -> None:
        """Add the failure of round `number`."""
        self._count += 1
        failure = RoundFailure(
            id=f"{self._prefix}-{self._count}",
            round=max(number, 0),
            role=casualty.role,
            index=casualty.index,
            exit_code=casualty.exit_code,
            signal=casualty.signal,
            reason=reason,
            message=casualty.said or how(casualty),
            stacks=stacks or None,
            counted=counted,
            root_cause=root_cause,
            time=self._now_text(),
            step=step,
        )
        self.failures = [*self.failures, failure][-KEPT:]
        if root_cause:
            log.event("round-ended", round=number, step=step, who=casualty.name, reason=reason, message=failure.message)


def how(casualty: Casualty) -> str:
    """Return in words how a program ended that said nothing."""
    if casualty.signal is not None:
        return f"{casualty.name} was ended by signal {casualty.signal}"
    return f"{casualty.name} ended with exit code {casualty.exit_code}"


def last_words(cause: Casualty, reason: str, remedy: str, end: GangEnd, report: ProgressReport | None) -> str:
    """Return the termination message of every launcher of a gang that gave up."""
    text = f"{cause.name}: {cause.said}" if cause.said else how(cause)
    known = report or ProgressReport(role=cause.role, index=cause.index, attempt=0, phase=Phase.STARTING)
    return termination.compose(reason, f"{text}; {remedy}" if remedy else text, known, end)
