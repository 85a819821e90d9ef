"""Whether a failure is followed by another round, when, and what it counts: the rules that the controller has for pods.

Pure: the verdict on an exit is that of `tfdist.exits`, the delays are those of `tfdist.backoff`.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from tfdist.api.policies import FailurePolicy
from tfdist.backoff import FREE_RESTARTS, restart_delay_seconds
from tfdist.contract import LeaderSettings, Restarts, Role
from tfdist.exits import APPLICATION_ERROR, LIMIT_EXCEEDED, PEER_LOST, REPEATED_ERROR, Action, Verdict

SPENT: Final = "no restart is left of the {limit} that runPolicy.backoffLimit allows without a new checkpoint"
TWICE: Final = "two rounds in a row ended with it, and none wrote a checkpoint: a restart would end the same"


@dataclass(frozen=True, slots=True)
class Casualty:
    """A program that failed, as `tfdist.exits.Ended` wants it. What only a cluster knows is absent."""

    role: Role
    index: int
    exit_code: int | None
    signal: int | None = None
    message: str = ""
    lost_at: str = ""
    """Orders failures of one round: whole seconds since the first."""
    reason: str = ""
    conditions: tuple[str, ...] = ()
    disrupted: bool = False
    deleting: bool = False

    @property
    def name(self) -> str:
        """How people call the replica, as `worker-3`."""
        return f"{self.role}-{self.index}"

    @property
    def said(self) -> str:
        """Its last words in one line: those of the trainer's message, or the last line of any text."""
        return said(self.message)


def said(termination: str) -> str:
    """Return what a termination message says; "" where there is none."""
    text = termination.strip()
    if text.startswith("{"):
        try:
            return str(json.loads(text)["message"])
        except (ValueError, KeyError, TypeError):
            pass
    return text.splitlines()[-1].strip()[:512] if text else ""


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows a failure: another round after `delay_seconds`, or for a `final` reason none."""

    counted: bool
    delay_seconds: float = 0.0
    final: str = ""
    remedy: str = ""


@dataclass(slots=True)
class Limits:
    """The restarts of a gang so far, and what the next failure leads to."""

    settings: LeaderSettings
    job: str
    restarts: Restarts
    policy: FailurePolicy | None
    _last: tuple[int | None, str] | None = field(default=None)
    """Exit code and words of the last application error, while no checkpoint has been written since."""

    @classmethod
    def of(cls, settings: LeaderSettings, job: str) -> "Limits":
        """Return the limits of a job, with what earlier attempts have used.

        Raises:
            ValueError: `settings.rules` are no rules.
        """
        rules: list[dict[str, Any]] = settings.rules
        policy = FailurePolicy.model_validate({"rules": rules}) if rules else None
        return cls(settings, job, settings.used, policy)

    def rule(self, meaning: Verdict, cause: Casualty | None, newest_checkpoint: int) -> Ruling:
        """Count a failure that means `meaning`, and return what follows.

        Args:
            meaning: the verdict on the root cause.
            cause: the program that ended first; None where none did, as when the gang stood still.
            newest_checkpoint: step of the newest checkpoint of the gang, or -1.
        """
        if newest_checkpoint > self.restarts.checkpoint_step:
            fresh = {"since_checkpoint": 0, "free_since_checkpoint": 0, "checkpoint_step": newest_checkpoint}
            self.restarts = self.restarts.model_copy(update=fresh)
            self._last = None
        if meaning.action is Action.FAIL:
            return Ruling(counted=False, final=meaning.reason)
        if self._repeats(meaning, cause):
            return Ruling(counted=True, final=REPEATED_ERROR, remedy=TWICE)
        return self._count(free=meaning.action is Action.RESTART_UNCOUNTED)

    def _repeats(self, meaning: Verdict, cause: Casualty | None) -> bool:
        """Return whether the very same error has ended the round before; the loss of a peer tells nothing."""
        if meaning.reason == PEER_LOST:
            return False
        last, self._last = self._last, None
        if meaning.reason != APPLICATION_ERROR or cause is None or not cause.said:
            return False
        self._last = (cause.exit_code, cause.said)
        return last == self._last

    def _count(self, *, free: bool) -> Ruling:
        have = self.restarts
        if free and have.free_since_checkpoint < FREE_RESTARTS:
            more = {"uncounted": have.uncounted + 1, "free_since_checkpoint": have.free_since_checkpoint + 1}
            self.restarts = have.model_copy(update=more)
            return Ruling(counted=False)
        since = have.since_checkpoint + 1
        limit = self.settings.backoff_limit
        if since > limit:
            return Ruling(counted=True, final=LIMIT_EXCEEDED, remedy=SPENT.format(limit=limit))
        self.restarts = have.model_copy(update={"counted": have.counted + 1, "since_checkpoint": since})
        delay = restart_delay_seconds(
            since, f"{self.job}-{self.restarts.counted}", first=self.settings.first_delay_seconds
        )
        return Ruling(counted=True, delay_seconds=delay)
