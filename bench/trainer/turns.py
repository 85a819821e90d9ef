"""Lets a loop that runs by itself take turns with others: it runs for as many steps as its turn has, and then waits.

Each loop is the real one, in a thread of its own, and reports its steps. That blocks it at the end of its turn: between
executions of the trainer's own loop and epochs of `fit`, when nothing is being computed.
"""

import os
import threading
import traceback
from collections.abc import Callable
from typing import Any

from tfdist.contract import Phase
from tfdist_trainer.reporter import Reporter, first_report


class Turns:
    """The turns of one loop."""

    def __init__(self) -> None:
        self._step = self._until = 0
        self._go, self._done = threading.Event(), threading.Event()

    def reached(self, step: int) -> None:
        """Record that the loop has taken `step` steps since its start; wait where the turn is over."""
        self._step = step
        if step >= self._until:
            self._done.set()
            self._go.wait()
            self._go.clear()

    def turn(self, steps: int) -> int:
        """Have the loop take at least `steps` steps, to the end of an execution, and return how many it took."""
        before = self._step
        self._until = before + steps
        self._done.clear()
        self._go.set()
        self._done.wait()
        return self._step - before

    def start(self, train: Callable[[], None]) -> None:
        """Start the loop in a thread, to its first report."""

        def run() -> None:
            try:
                train()
            except BaseException:
                traceback.print_exc()
            os._exit(1)  # a process that waits for the next turn must not wait forever

        threading.Thread(target=run, daemon=True).start()
        self._done.wait()


class TurnTaker(Reporter):
    """A reporter that holds up the trainer's own loop, which reports to it."""

    def __init__(self, member: Any) -> None:
        super().__init__(first_report(member))
        self.turns = Turns()

    def update(self, **changes: Any) -> None:
        """Take note, and where the turn is over wait for the next."""
        super().update(**changes)
        if changes.get("phase") is Phase.TRAINING and "step" in changes:
            self.turns.reached(changes["step"])
