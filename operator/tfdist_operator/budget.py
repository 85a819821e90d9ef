"""A budget of CPU time for the work on one object of a tenant: parsing it, planning it, reviewing it.

Objects are bounded in size, and nothing that reads them grows faster than its input; a bug in either would let one
object keep the controller busy for ever. So the name of the object that is worked on is known at any time, work that
exceeds its budget is interrupted with an exception, wherever it is, and the caller sets the object aside.
"""

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final, NoReturn, TypeVar

T = TypeVar("T")

LIMIT_SECONDS: Final = 5.0
"""CPU time after which work is interrupted: dozens of times what the largest object takes."""
CHECK_SECONDS: Final = 0.5
SLOW_SECONDS: Final = 1.0
"""CPU time after which the object of the work is set aside for minutes."""


class BudgetExceeded(Exception):  # noqa: N818  an event of one object, not an error of the program
    """The work on an object was interrupted."""


class _Interruption(BaseException):
    """Raised in the thread of the work; no `except Exception` on the way may handle it."""


@dataclass(slots=True)
class _Work:
    what: str
    clock: int
    """Clock of the CPU time of its thread."""
    started: float
    interrupted: bool = False

    @property
    def seconds(self) -> float:
        return time.clock_gettime(self.clock) - self.started


class Budget:
    """The work that the threads of this process do at present, at most one in each thread."""

    def __init__(self, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._working: dict[int, _Work] = {}

    @property
    def current(self) -> str:
        """What is worked on now, for messages; "" for nothing."""
        with self._lock:
            return ", ".join(work.what for work in self._working.values())

    def run(self, what: str, function: Callable[[], T]) -> tuple[T, float]:
        """Return the result of a function, and the CPU time of this thread that it took in seconds.

        Args:
            what: the work and its object, such as `planning of team/train`.
            function: pure Python; an interruption leaves it at any line.

        Raises:
            BudgetExceeded: it took more than the limit.
        """
        thread = threading.get_ident()
        # CPU time, so that a busy machine sets no object aside (ADR 53).
        clock = time.pthread_getcpuclockid(thread)
        work = _Work(what, clock, time.clock_gettime(clock))
        if thread in self._working:  # part of other work, which has the limit
            return function(), work.seconds
        try:
            try:
                with self._lock:
                    self._working[thread] = work
                return function(), work.seconds
            finally:
                self._end(thread, work)
        except _Interruption:
            self._end(thread, work)  # again: the interruption may have come during the first one
            text = f"the {what} took more than {self._limit_seconds:g} s of CPU time and was interrupted"
            raise BudgetExceeded(text) from None

    def interrupt_overdue(self) -> None:
        """Interrupt work that has exceeded the limit; called in another thread."""
        with self._lock:
            for thread, work in self._working.items():
                if not work.interrupted and work.seconds > self._limit_seconds:
                    work.interrupted = True
                    # An exception from another thread: `signal.setitimer` reaches the main thread only (ADR 53).
                    _raise_in(thread, _Interruption)

    def watch(self) -> NoReturn:
        """Interrupt overdue work for ever, in a thread of its own."""
        while True:
            time.sleep(CHECK_SECONDS)
            self.interrupt_overdue()

    def _end(self, thread: int, work: _Work) -> None:
        with self._lock:
            self._working.pop(thread, None)
            if work.interrupted:
                _raise_in(thread, None)  # one that has not been raised yet


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread at its next line, or withdraw one that has not been raised."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind) if kind else None)


BUDGET: Final = Budget()
"""The budget of this process."""


async def in_thread(executor: Executor, what: str, function: Callable[[], T]) -> tuple[T, float]:
    """Return the result of `Budget.run` in a thread.

    Raises:
        BudgetExceeded: as `Budget.run`.
    """
    return await asyncio.get_running_loop().run_in_executor(executor, BUDGET.run, what, function)
