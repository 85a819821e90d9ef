"""XLA autotuning: with `runtime.xla: Auto`, uses the faster of compiled and plain steps.

Compilation takes seconds and pays off only in a training that is long enough. So plain steps are measured first; if
enough training remains, one compiled execution and some that are measured follow. The chief decides for the gang.
"""

from typing import Final, Literal

from tfdist_trainer import log

MIN_REMAINING_SECONDS: Final = 60.0
"""Minimum remaining training time, in plain steps, for which compilation is tried."""

MEASURED_EXECUTIONS: Final = 3
"""Executions of each kind of which the fastest counts: others may have been delayed."""

PLAIN_EXECUTIONS: Final = 2 + MEASURED_EXECUTIONS
"""Executions of plain steps before compilation is tried: the first includes tracing, the second warms up."""


class XlaAutotuner:
    """Decides for each execution whether XLA compiles it.

    Args:
        mode: `runtime.xla`; `On` and `Off` decide at once.
        min_remaining_seconds: see `MIN_REMAINING_SECONDS`.
    """

    def __init__(
        self, mode: Literal["Auto", "On", "Off"], *, min_remaining_seconds: float = MIN_REMAINING_SECONDS
    ) -> None:
        self._settled = mode != "Auto"
        self._compiled = mode == "On"
        self._min_remaining_seconds = min_remaining_seconds
        self._plain_seconds: list[float] = []
        self._compiled_seconds: list[float] = []
        """Seconds of a step of each compiled execution. The first includes compilation."""

    def propose(self, steps_left: int) -> bool:
        """Return whether to compile the next execution; `steps_left` is the number of remaining steps."""
        if self._settled:
            return self._compiled
        # Compilation takes seconds: a short training would not win them back.
        if (
            len(self._plain_seconds) >= PLAIN_EXECUTIONS
            and self._plain_seconds[-1] * steps_left >= self._min_remaining_seconds
        ):
            return True
        return bool(self._compiled_seconds)

    @property
    def compiles_next(self) -> bool:
        """Whether the next compiled execution is the first, which has one step and is not measured."""
        return not self._compiled_seconds

    def observe(self, *, compiled: bool, step_seconds: float) -> None:
        """Record the duration of a step in the last execution."""
        if self._settled and not (compiled and self.compiles_next):
            return  # executions go on for days
        (self._compiled_seconds if compiled else self._plain_seconds).append(step_seconds)
        if self._settled or len(self._compiled_seconds) <= MEASURED_EXECUTIONS:
            return
        # The last ones have the current number of steps.
        plain, of_compiled = (
            min(each[-MEASURED_EXECUTIONS:]) for each in (self._plain_seconds, self._compiled_seconds)
        )
        self._settled, self._compiled = True, of_compiled < plain
        log.event("xla", keeps=self._compiled, plainStepMillis=plain * 1000, xlaStepMillis=of_compiled * 1000)

    def record_failure(self, reason: str) -> None:
        """Record that XLA cannot compile these steps: plain steps from now on."""
        self._settled, self._compiled = True, False
        log.event("xla", keeps=False, reason=reason)
