"""Init process of a replica, like PID 1 of a container (`tini` as a subreaper): no descendant outlives the replica.

    python -I -S init_process.py LIFELINE GRACE_SECONDS COMMAND...

It imports only the standard library and is run by its path, so that it starts in milliseconds whatever the replica's
environment is. It exits with the replica's exit code; for a signal with 128 plus its number, as a container does.

| event | effect on the replica |
|---|---|
| SIGTERM | SIGTERM, then SIGKILL after the grace period |
| SIGINT | SIGKILL |
| end of file on LIFELINE: the run has exited, for any reason | as for SIGTERM |
| SIGKILL of the init process | the kernel kills it (PR_SET_PDEATHSIG); the run adopts and kills its descendants |

Orphaned descendants, also those in a session of their own, become children of the init process
(PR_SET_CHILD_SUBREAPER, `prctl(2)`), so that it can find and kill them all after the replica has ended.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
"""Exit codes of a shell, and of a container, for a command that cannot be run."""

_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_CHILD_SUBREAPER: Final = 36
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_KILLING_SECONDS: Final = 10.0
"""Limit on killing descendants: a process in uninterruptible sleep, or of another user, may remain."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the replica and exit with its exit code."""
    lifeline, grace_seconds, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    os.set_inheritable(lifeline, False)
    adopt_orphans()
    wakeups, alarm = os.pipe()
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm)  # before the handlers: a signal between the two calls would be lost
    for number in _SIGNALS:
        signal.signal(number, _on_signal)
    child = _start(command)
    code = _wait(child, lifeline, wakeups, grace_seconds)
    kill_descendants()
    os._exit(code)


def adopt_orphans() -> None:
    """Become the parent of every orphaned descendant of this process (`PR_SET_CHILD_SUBREAPER`)."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def kill_descendants() -> None:
    """Kill and reap all descendants of this process until none is left, for at most 10 s."""
    deadline = time.monotonic() + _KILLING_SECONDS
    while (processes := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.005)


def descendants(ancestor: int) -> list[int]:
    """Return the process ids of all descendants of `ancestor`, from `/proc`."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # the command name is in parentheses and may contain any character, also ")"
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    result, pending = [], [ancestor]
    while pending:
        below = children.get(pending.pop(), [])
        result += below
        pending += below
    return result


def _on_signal(*_: object) -> None:
    """Do nothing: the interpreter has written the signal's number to the wakeup pipe, which `_wait` reads."""


def _start(command: Sequence[str]) -> int:
    parent = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (*_SIGNALS, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], list(command))  # noqa: S606  a container's command runs without a shell too
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _wait(child: int, lifeline: int, wakeups: int, grace_seconds: float) -> int:
    """Return the exit code of `child`; forward a request to stop, and kill it after `grace_seconds`."""
    descriptors = [wakeups, lifeline]
    is_terminating, deadline = False, None
    while (code := _reap().get(child)) is None:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(descriptors, [], [], timeout)
        signals = os.read(wakeups, 4096) if wakeups in ready else b""
        if signal.SIGINT in signals or (deadline is not None and time.monotonic() >= deadline):
            os.kill(child, signal.SIGKILL)
            deadline = None
        elif not is_terminating and (lifeline in ready or signal.SIGTERM in signals or signal.SIGHUP in signals):
            os.kill(child, signal.SIGTERM)
            is_terminating, deadline = True, time.monotonic() + grace_seconds
        if lifeline in ready:
            descriptors.remove(lifeline)
    return code


def _reap() -> dict[int, int]:
    """Return the exit codes of all children that have ended, by process id."""
    codes: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return codes
        if pid == 0:
            return codes
        code = os.waitstatus_to_exitcode(status)
        codes[pid] = code if code >= 0 else 128 - code


def _prctl(option: int, value: int) -> None:
    """Call `prctl(2)`; systems without it rely on signals and the lifeline alone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
