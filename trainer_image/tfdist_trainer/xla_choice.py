"""Whether steps are compiled by XLA: as the job says, or, with `Auto`, whichever way is measured to be faster.

Compiling takes seconds, and pays back in a training that goes on for long enough. So the plain steps are measured
first; when they leave enough to do, one chunk compiled and one measured follow. The chief decides for the gang.
"""

from typing import Final, Literal

from tfdist_trainer import log

WORTH_SECONDS: Final = 60.0
"""Remaining training, in plain steps, from which on compiling is tried."""

PLAIN_CHUNKS: Final = 4
"""Chunks of plain steps before the plain speed is believed; the first includes tracing, the second warms up."""


class XlaChoice:
    """Says for each chunk whether it is compiled, and learns from how long it took."""

    def __init__(self, mode: Literal["Auto", "On", "Off"], *, worth_seconds: float = WORTH_SECONDS) -> None:
        self._settled = mode != "Auto"
        self._compiled = mode == "On"
        self._worth_seconds = worth_seconds
        self._plain: list[float] = []
        self._tried = 0
        self._step_seconds: float | None = None

    def propose(self, steps_left: int) -> bool:
        """Return whether the next chunk is compiled."""
        if self._settled:
            return self._compiled
        if len(self._plain) >= PLAIN_CHUNKS and self._plain[-1] * steps_left >= self._worth_seconds:
            return True
        return self._tried > 0

    @property
    def compiles_next(self) -> bool:
        """Whether the next compiled chunk is the first, which takes one step and is not measured."""
        return self._tried == 0

    def measured(self, *, compiled: bool, step_seconds: float) -> None:
        """Learn the time of a step in the chunk that has just run."""
        if compiled:
            self._tried += 1
        if self._settled:
            return
        if not compiled:
            self._plain.append(step_seconds)
        elif self._tried > 1:
            # The first plain chunks traced and warmed up; the last is of the length that chunks have now.
            plain = min(self._plain[-2:])
            self._settled, self._compiled = True, step_seconds < plain
            log.event("xla", keeps=self._compiled, plainStepMillis=plain * 1000, xlaStepMillis=step_seconds * 1000)

    def failed(self, reason: str) -> None:
        """Learn that XLA cannot compile these steps."""
        self._settled, self._compiled = True, False
        log.event("xla", keeps=False, reason=reason)
