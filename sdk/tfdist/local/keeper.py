"""The process around each replica, as its container would be: what it started does not outlive it, nor the run.

    python -I -S keeper.py LIFELINE GRACE_SECONDS COMMAND...

It imports nothing but the standard library and is run by its path, so that it starts in milliseconds whatever the
replica's environment is. The replica's exit code is its own; 128 and the number for a signal, as a container has.

| what | the replica |
|---|---|
| SIGTERM | gets SIGTERM, and is killed after the grace period |
| SIGINT | is killed |
| end of LIFELINE: the run is gone, however it went | as for SIGTERM |
| the keeper itself is killed | is killed by the kernel (PR_SET_PDEATHSIG); the run adopts and kills what it started |

Whoever loses its parent below the keeper becomes the keeper's child (PR_SET_CHILD_SUBREAPER, `prctl(2)`), also what
has made a session of its own: so all of it can be found and killed when the replica has ended.
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
"""What a shell, and kubelet, call a command that cannot be run."""

_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_CHILD_SUBREAPER: Final = 36
_HEARD: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_KILLING_SECONDS: Final = 10.0
"""How long to look for processes to kill: one that the kernel holds, or that another user owns, may stay."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the replica and exit as it did."""
    lifeline, grace_seconds, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    os.set_inheritable(lifeline, False)
    adopt_orphans()
    wakeups, alarm = os.pipe()
    os.set_blocking(alarm, False)
    signal.set_wakeup_fd(alarm)  # first, or a signal between the two would be heard by nobody
    for number in _HEARD:
        signal.signal(number, _hear)
    child = _start(command)
    code = _until_ended(child, lifeline, wakeups, grace_seconds)
    kill_descendants()
    os._exit(code)


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def kill_descendants() -> None:
    """Kill every process below this one, and reap them, until there is none."""
    deadline = time.monotonic() + _KILLING_SECONDS
    while (found := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.005)


def descendants(ancestor: int) -> list[int]:
    """Return the processes below `ancestor` as `/proc` shows them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                # the name of the program is in parentheses, and may have any character
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, look = [], [ancestor]
    while look:
        below = children.get(look.pop(), [])
        found += below
        look += below
    return found


def _hear(*_: object) -> None:
    """Do nothing: the signal's number has been written to the wakeup pipe, which the loop reads."""


def _start(command: Sequence[str]) -> int:
    keeper = os.getpid()
    child = os.fork()
    if child:
        return child
    try:
        _prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(128 + signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (*_HEARD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], list(command))  # noqa: S606  no shell stands between a container and its command
    except OSError as error:
        print(f"cannot run {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _until_ended(child: int, lifeline: int, wakeups: int, grace_seconds: float) -> int:
    """Return the exit code of `child`, having stopped it where somebody asks for that."""
    watched = [wakeups, lifeline]
    asked, deadline = False, None
    while (code := _reap().get(child)) is None:
        rest = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select(watched, [], [], rest)
        heard = os.read(wakeups, 4096) if wakeups in ready else b""
        if signal.SIGINT in heard or (deadline is not None and time.monotonic() >= deadline):
            os.kill(child, signal.SIGKILL)
            deadline = None
        elif not asked and (lifeline in ready or signal.SIGTERM in heard or signal.SIGHUP in heard):
            os.kill(child, signal.SIGTERM)
            asked, deadline = True, time.monotonic() + grace_seconds
        if lifeline in ready:
            watched.remove(lifeline)
    return code


def _reap() -> dict[int, int]:
    """Return the exit codes, by process, of all children that have ended."""
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
    """Call `prctl(2)`; where the system has none, what it is for is done by the other means alone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
