"""The restart budget of a gang: which restarts count, when it is exhausted, and the delay before each.

Delays are exponential: none before the first restart, then 10 s doubling up to 300 s, with jitter. A new checkpoint
starts the budget again; the back-off after many short attempts ends only after a long one, because checkpoints are what
programs report (ADR 52).
"""

import zlib
from dataclasses import dataclass
from typing import Final

from tfdist.contract import Restarts
from tfdist.contract_model import INT32_MAX
from tfdist.failure_classification import (
    LIMIT_EXCEEDED,
    LIMIT_MESSAGE,
    REPEATED_ERROR,
    Action,
    Classification,
)
from tfdist.failure_text import same_cause

FIRST_DELAY_SECONDS: Final = 10.0
MAX_DELAY_SECONDS: Final = 300.0
MAX_UNCOUNTED_RESTARTS: Final = 10
"""Uncounted restarts without a new checkpoint; further ones count against `backoffLimit`."""
LONG_ATTEMPT_SECONDS: Final = 600.0
"""An attempt that ran for this time ends the back-off, as a long run of a container ends its kubelet's
(CrashLoopBackOff)."""
MAX_PROMPT_RESTARTS: Final = 10
"""Short attempts in a row after which every restart is delayed, also of an attempt that reports new checkpoints or
that the cluster ended. A node upgrade may evict a gang once for each node, all within ten minutes."""
REPEATED_MESSAGE: Final = (
    "two attempts in a row ended with it and neither wrote a checkpoint: a restart would fail the same way"
)
_MAX_JITTER: Final = 0.2


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """The result of a failure: a restart after `delay_seconds`, or the end of the gang if `final` has a reason."""

    restarts: Restarts
    """The counters with the restart; unchanged at the end of the gang."""
    counted: bool
    """Whether the failure counts against `backoffLimit`."""
    delay_seconds: float = 0.0
    final: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class ApplicationError:
    """An error of the program; one without a message cannot be compared."""

    exit_code: int | None
    message: str

    def repeats(self, last: "ApplicationError | None") -> bool:
        """Return whether it is the same error as the last one, whatever the numbers in its message."""
        if last is None or last.exit_code != self.exit_code or not self.message:
            return False
        return same_cause(last.message, self.message)


def at_checkpoint(restarts: Restarts, newest: int) -> Restarts:
    """Return the counters, reset if `newest`, the step of the newest checkpoint or -1, is a new one."""
    if newest <= restarts.checkpoint_step:
        return restarts
    reset = {"since_checkpoint": 0, "uncounted_since_checkpoint": 0, "checkpoint_step": newest}
    return restarts.model_copy(update=reset)


def decide(
    restarts: Restarts,
    classification: Classification,
    limit: int,
    *,
    ran_seconds: float,
    repeated: bool,
    jitter_key: str,
    first_delay_seconds: float = FIRST_DELAY_SECONDS,
) -> BudgetDecision:
    """Return the decision about a failure.

    Args:
        restarts: the counters so far, after `at_checkpoint`.
        classification: of the root cause.
        limit: `backoffLimit`.
        ran_seconds: how long the failed attempt ran, by a clock that its program cannot set.
        repeated: whether it repeats the error of the attempt before, without a new checkpoint.
        jitter_key: names the job and its attempt. Jobs that failed at the same moment are spread by up to a fifth of
            the delay; equal keys give equal delays, so that every reconcile computes the same one.
        first_delay_seconds: delay after the second short attempt.
    """
    # From the most to the least certain that a restart is useless: its class, a repetition, the limit.
    if classification.action is Action.FAIL:
        return BudgetDecision(restarts, counted=False, final=classification.reason)
    if repeated:
        return BudgetDecision(restarts, counted=False, final=REPEATED_ERROR, remedy=REPEATED_MESSAGE)
    # Disruptions do not count, but endless ones would restart a job for ever without this limit.
    uncounted, since_checkpoint = restarts.uncounted_since_checkpoint, restarts.since_checkpoint
    counted = classification.action is not Action.RESTART_UNCOUNTED or uncounted >= MAX_UNCOUNTED_RESTARTS
    if counted and since_checkpoint >= limit:
        remedy = LIMIT_MESSAGE.format(limit=limit)
        return BudgetDecision(restarts, counted=True, final=LIMIT_EXCEEDED, remedy=remedy)
    # Unlike the counters this does not depend on reported checkpoints, which a program can invent (ADR 52).
    short = restarts.short_attempts + 1 if ran_seconds < LONG_ATTEMPT_SECONDS else 0
    if counted:
        changes = {"counted": restarts.counted + 1, "since_checkpoint": since_checkpoint + 1}
    else:
        changes = {"uncounted": restarts.uncounted + 1, "uncounted_since_checkpoint": uncounted + 1}
    used = restarts.model_copy(update=changes | {"short_attempts": min(short, INT32_MAX)})
    # Whichever delay is longer: of short attempts, or of counted restarts without a checkpoint (ADR 52).
    doublings = max(short - MAX_PROMPT_RESTARTS, min(since_checkpoint, short - 1) if counted else 0)
    return BudgetDecision(used, counted, _delay_seconds(doublings, jitter_key, first_delay_seconds))


def _delay_seconds(doublings: int, jitter_key: str, first: float) -> float:
    """Return the delay before a restart: none for 0, `first` for 1, and twice that for each further one."""
    if doublings <= 0:
        return 0.0
    delay = min(first * 2.0 ** min(doublings - 1, 16), MAX_DELAY_SECONDS)
    # Derived from the key and not drawn, so that each reconcile of the same failure computes the same time.
    return delay * (1 - _MAX_JITTER * zlib.crc32(jitter_key.encode()) / 2**32)
