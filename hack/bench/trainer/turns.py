"""Lets the trainer's own loop run for as many steps as its turn has, and then wait for the next.

The loop is the real one, in a thread of its own. It reports every execution of steps through its reporter, which
blocks it there: between executions, when nothing is being computed.
"""

import os
import threading
import traceback
from collections.abc import Callable
from typing import Any

from tfdist.contract import Phase
from tfdist_trainer.reporter import Reporter, first_report


class TurnTaker(Reporter):
    """A reporter that holds up the loop which reports to it."""

    def __init__(self, member: Any) -> None:
        super().__init__(first_report(member.job, member.round))
        self._until = 0
        self._go, self._done = threading.Event(), threading.Event()

    def update(self, **changes: Any) -> None:
        """Take note, and if the turn is over wait for the next."""
        super().update(**changes)
        if changes.get("phase") is Phase.TRAINING and changes.get("step", -1) >= self._until:
            self._done.set()
            self._go.wait()
            self._go.clear()

    def turn(self, steps: int) -> int:
        """Have the loop take at least `steps` steps, to the end of an execution, and return how many it took."""
        step_before = self.current.step or 0
        self._until = step_before + steps
        self._done.clear()
        self._go.set()
        self._done.wait()
        return (self.current.step or 0) - step_before

    def start(self, train: Callable[[], None]) -> None:
        """Start the loop in a thread, to its first step."""

        def run() -> None:
            try:
                train()
            except BaseException:
                traceback.print_exc()
            os._exit(1)  # a process that waits for the next turn must not wait forever

        threading.Thread(target=run, daemon=True).start()
        self._done.wait()
