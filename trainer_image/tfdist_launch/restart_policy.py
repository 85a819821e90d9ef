"""The restart policy of a gang: whether a failure is followed by another round, after which delay, and what it counts.

The rules are those that the controller applies to pods: `tfdist.failure_classification` and `tfdist.backoff`. Pure.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.api.policies import FailurePolicy
from tfdist.backoff import MAX_UNCOUNTED_RESTARTS, restart_delay_seconds
from tfdist.contract import LeaderSettings, Restarts
from tfdist.failure_classification import (
    APPLICATION_ERROR,
    LIMIT_EXCEEDED,
    LIMIT_MESSAGE,
    PEER_LOST,
    REPEATED_ERROR,
    Action,
    Classification,
)
from tfdist.failure_text import same_cause
from tfdist_launch.failures import ProcessFailure

REPEATED_TEXT: Final = (
    "two rounds in a row failed with this error, and neither wrote a checkpoint: a restart would fail the same way"
)


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """The result of a failure: another round after `delay_seconds`, or none if `final` has a reason."""

    counted: bool
    delay_seconds: float = 0.0
    final: str = ""
    """Reason why the gang fails; "" if another round follows."""
    remedy: str = ""


@dataclass(slots=True)
class RestartPolicy:
    """Counts the restarts of a gang and decides about the next failure."""

    settings: LeaderSettings
    job: str
    restarts: Restarts
    failure_policy: FailurePolicy | None
    _last_error: tuple[int | None, str] | None = field(default=None)
    """Exit code and message of the last application error; None after a new checkpoint."""

    @classmethod
    def of(cls, settings: LeaderSettings, job: str) -> "RestartPolicy":
        """Return the policy of a job, which starts from the restarts of earlier attempts.

        Raises:
            ValueError: `settings.rules` is no valid failure policy.
        """
        rules: list[dict[str, Any]] = settings.rules
        failure_policy = FailurePolicy.model_validate({"rules": rules}) if rules else None
        return cls(settings, job, settings.prior_restarts, failure_policy)

    def decide(
        self, classification: Classification, cause: ProcessFailure | None, newest_checkpoint: int
    ) -> RestartDecision:
        """Count a failure and return the decision.

        Args:
            classification: that of the root cause.
            cause: the process that failed first; None if no process failed, as when the gang stalled.
            newest_checkpoint: step of the newest checkpoint of the gang, or -1.
        """
        if newest_checkpoint > self.restarts.checkpoint_step:
            fresh = {"since_checkpoint": 0, "uncounted_since_checkpoint": 0, "checkpoint_step": newest_checkpoint}
            self.restarts = self.restarts.model_copy(update=fresh)
            self._last_error = None
        if classification.action is Action.FAIL:
            return RestartDecision(counted=False, final=classification.reason)
        if self._is_repeated(classification, cause):
            return RestartDecision(counted=True, final=REPEATED_ERROR, remedy=REPEATED_TEXT)
        return self._count(free=classification.action is Action.RESTART_UNCOUNTED)

    def _is_repeated(self, classification: Classification, cause: ProcessFailure | None) -> bool:
        """Return whether the round before failed with the same error; the loss of a peer is no evidence either way."""
        if classification.reason == PEER_LOST:
            return False
        last, self._last_error = self._last_error, None
        if classification.reason != APPLICATION_ERROR or cause is None or not cause.summary:
            return False
        self._last_error = (cause.exit_code, cause.summary)
        return last is not None and last[0] == cause.exit_code and same_cause(last[1], cause.summary)

    def _count(self, *, free: bool) -> RestartDecision:
        have = self.restarts
        if free and have.uncounted_since_checkpoint < MAX_UNCOUNTED_RESTARTS:
            more = {"uncounted": have.uncounted + 1, "uncounted_since_checkpoint": have.uncounted_since_checkpoint + 1}
            self.restarts = have.model_copy(update=more)
            return RestartDecision(counted=False)
        since = have.since_checkpoint + 1
        limit = self.settings.backoff_limit
        if since > limit:
            return RestartDecision(counted=True, final=LIMIT_EXCEEDED, remedy=LIMIT_MESSAGE.format(limit=limit))
        self.restarts = have.model_copy(update={"counted": have.counted + 1, "since_checkpoint": since})
        delay = restart_delay_seconds(
            since, f"{self.job}-{self.restarts.counted}", first=self.settings.first_delay_seconds
        )
        return RestartDecision(counted=True, delay_seconds=delay)
