"""The restart policy of a gang: whether a failure is followed by another round, and after which delay.

The controller applies the same rules to pods: `tfdist.failure_classification` and `tfdist.restarts.budget`. Pure.
"""

from dataclasses import dataclass, field
from typing import Any

from tfdist.api.policies import FailurePolicy
from tfdist.contract import LeaderSettings, Restarts
from tfdist.failure_classification import PEER_LOST, REPEATABLE, Classification
from tfdist.restarts import budget
from tfdist.restarts.budget import ApplicationError, BudgetDecision
from tfdist_launch.failures import ProcessFailure


@dataclass(slots=True)
class RestartPolicy:
    """Counts the restarts of a gang and decides about the next failure."""

    settings: LeaderSettings
    job: str
    restarts: Restarts
    failure_policy: FailurePolicy | None
    _last_error: ApplicationError | None = field(default=None)
    """The last error of the program; None after a new checkpoint, or another failure that is not a lost peer."""

    @classmethod
    def of(cls, settings: LeaderSettings, job: str) -> "RestartPolicy":
        """Return the policy of a job, which starts from the restarts of earlier attempts.

        Raises:
            ValueError: `settings.rules` is not a valid failure policy.
        """
        rules: list[dict[str, Any]] = settings.rules
        failure_policy = FailurePolicy.model_validate({"rules": rules}) if rules else None
        return cls(settings, job, settings.prior_restarts, failure_policy)

    def decide(
        self, classification: Classification, cause: ProcessFailure, newest_checkpoint: int, ran_seconds: float
    ) -> BudgetDecision:
        """Count a failure, and return the decision.

        Args:
            classification: of the failure.
            cause: the failure.
            newest_checkpoint: the step of the gang's newest checkpoint, or -1.
            ran_seconds: how long the training process of the failed member ran.
        """
        # A new checkpoint is progress: the back-off begins anew, and an error does not count as repeated.
        used = budget.at_checkpoint(self.restarts, newest_checkpoint)
        if used is not self.restarts:
            self._last_error = None
        decision = budget.decide(
            used,
            classification,
            self.settings.backoff_limit,
            ran_seconds=ran_seconds,
            repeated=self._is_repeated(classification, cause),
            jitter_key=f"{self.job}-{used.counted + 1}",
            first_delay_seconds=self.settings.first_delay_seconds,
        )
        self.restarts = decision.restarts
        return decision

    def _is_repeated(self, classification: Classification, cause: ProcessFailure) -> bool:
        """Return whether the round before failed with the same error; the loss of a peer proves nothing."""
        # A lost peer neither repeats an error nor separates two equal ones.
        if classification.reason == PEER_LOST:
            return False
        error = ApplicationError(cause.exit_code, cause.summary)
        last, self._last_error = self._last_error, error if classification.reason in REPEATABLE else None
        return self._last_error is not None and error.repeats(last)
