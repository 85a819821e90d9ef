"""Chooses `steps_per_execution`: how many training steps run in one call of the graph.

The steps of an execution run inside one `tf.function`; between executions the members make decisions together
(`loop_decision`). As in Keras, more steps per execution mean less overhead, and a longer wait for a decision.
"""

from typing import Final

EXECUTION_SECONDS: Final = 0.5
"""Target duration of an execution: a decision costs a few milliseconds, and SIGTERM must not wait long for one."""

GROWTH: Final = 8
"""Largest factor between one execution and the next. The first one, of a single step, includes compilation."""

MAX_STEPS_PER_EXECUTION: Final = 2000


class StepsPerExecutionTuner:
    """Proposes steps per execution from measured durations."""

    def __init__(self) -> None:
        self._steps = 1
        self._executions = 0

    @property
    def steps(self) -> int:
        """The proposed number of steps of the next execution."""
        return self._steps

    def observe(self, steps: int, seconds: float) -> None:
        """Record that an execution of `steps` steps took `seconds`."""
        self._executions += 1
        if self._executions == 1:
            return  # compilation
        target = round(steps * EXECUTION_SECONDS / max(seconds, 1e-6))
        self._steps = max(1, min(target, self._steps * GROWTH, MAX_STEPS_PER_EXECUTION))
