"""Progress output: one line when a step begins, a heartbeat while it runs, and one line when it ends.

Lines go to standard error, so that commands such as `kubeconfig` can be used in shell substitutions. Steps may
run in several threads; a line is written at once and never mixed with another.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

HEARTBEAT_SECONDS = 15.0
LONG_SECONDS = 10.0  # steps that take longer announce it
MINUTES_FROM_SECONDS = 90.0
_writing = threading.Lock()


def info(text: str) -> None:
    """Print a line to standard error."""
    with _writing:
        print(text, file=sys.stderr, flush=True)


def nothing() -> str:
    """Report no detail."""
    return ""


@contextmanager
def step(title: str, *, expected_seconds: float = 0, detail: Callable[[], str] = nothing) -> Iterator[None]:
    """Announce a step, show its progress, and report how long it took.

    Args:
        title: the step, starting with a verb.
        expected_seconds: approximate duration on two cores in seconds; shown for steps of more than ten seconds.
        detail: called for every heartbeat; returns a short text such as "812 packages".
    """
    about = f" (about {_duration(expected_seconds)})" if expected_seconds > LONG_SECONDS else ""
    info(f"==> {title}{about}")
    start = time.monotonic()
    finished = threading.Event()

    def report_progress() -> None:
        while not finished.wait(HEARTBEAT_SECONDS):
            extra = detail()
            info(f"... {title}: {_duration(time.monotonic() - start)}" + (f", {extra}" if extra else ""))

    heartbeat = threading.Thread(target=report_progress, daemon=True)
    heartbeat.start()
    try:
        yield
    except BaseException:
        info(f"!!! {title}: failed after {_duration(time.monotonic() - start)}")
        raise
    finally:
        finished.set()
        heartbeat.join()
    info(f"    {title}: {_duration(time.monotonic() - start)}")


def _duration(seconds: float) -> str:
    if seconds < LONG_SECONDS:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < MINUTES_FROM_SECONDS else f"{seconds / 60:.1f} min"
