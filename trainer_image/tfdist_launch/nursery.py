"""The warm process: it has imported TensorFlow, has one thread of Python's, and forks the program of each round.

Process 1 itself must stay light and answer at all times, so it does not fork programs but asks this one:

    launcher -> nursery   {"program": 3, "env": {...}}   start a program, which is called 3 from now on
                          {"drop": 3}                    kill it, and do what is asked next when it is gone
    nursery -> launcher   {"ready": true}                what is to be imported has been
                          {"program": 3, "pid": 71}      it has been started, as the leader of a process group
                          {"program": 3, "status": 9}    it is gone, with its group; `status` as of waitpid

A Python program runs in the fork as `__main__`; another command, or any with `--cold`, replaces it by exec. When the
launcher is killed, so is this process, and with it the program.
"""

import contextlib
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tfdist_launch.python_command import PythonProgram, python_program
from tfdist_trainer import heartbeat, log, preload

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_PR_SET_PDEATHSIG: Final = 1


def main(arguments: Sequence[str]) -> None:
    """Serve the launcher at the socket of descriptor `arguments[0]`; a fork returns with its program having run."""
    parent, command = int(arguments[1]), arguments[4:]
    _die_with(parent)
    channel = socket.socket(fileno=int(arguments[0]))
    program = None if arguments[2] == "cold" else python_program(command)
    if program is not None and not _warm_up(program):
        program = None
    request = _serve(channel)
    if request is None:
        return
    os.environ.update(request["env"])
    if program is None:
        _replace(command)
    else:
        _run(program)


def _warm_up(program: PythonProgram) -> bool:
    """Import what the program will; return whether this process may be forked afterwards."""
    if program.is_trainer:
        preload.trainer()
    else:
        preload.script()
    if preload.is_started() or threading.active_count() > 1:
        log.event("cold", reason="what was imported has started TensorFlow's runtime or a thread: nothing is forked")
        return False
    gc.collect()
    gc.freeze()  # collecting in a fork would touch, and so copy, every page that has an object
    return True


def _serve(channel: socket.socket) -> dict[str, Any] | None:
    """Start programs until the launcher is gone; return what was asked, in the fork that is to run it."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _tell(channel, ready=True)
    programs: dict[int, int] = {}
    left = b""
    while True:
        ready, _, _ = select.select([channel.fileno(), reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _reap(channel, programs)
        if channel.fileno() not in ready:
            continue
        data = channel.recv(1 << 16)
        if not data:
            return None
        *lines, left = (left + data).split(b"\n")
        for line in lines:
            request: dict[str, Any] = json.loads(line)
            if "drop" in request:
                _drop(programs, request["drop"])
                continue
            pid = os.fork()
            if pid == 0:
                _become_program(channel, (reading, writing))
                return request
            _own_group(pid)
            programs[pid] = request["program"]
            _tell(channel, program=request["program"], pid=pid)


def _become_program(channel: socket.socket, pipe: tuple[int, int]) -> None:
    """Leave behind, in a fork, what the nursery is."""
    _own_group(0)
    _die_with(os.getppid())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel.close()
    for descriptor in pipe:
        os.close(descriptor)


def _drop(programs: dict[int, int], dropped: int) -> None:
    """Kill a program that nobody wants to hear of any more, and return when it has left its ports."""
    for pid in [pid for pid, program in programs.items() if program == dropped]:
        del programs[pid]
        _kill(pid)
        os.waitpid(pid, 0)


def _reap(channel: socket.socket, programs: dict[int, int]) -> None:
    """Tell of programs that are gone, after ending what they have left running."""
    while programs:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        program = programs.pop(pid, None)
        if program is None:
            continue
        _kill(pid)
        _tell(channel, program=program, status=status)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _tell(channel: socket.socket, **message: Any) -> None:
    channel.sendall(json.dumps(message).encode() + b"\n")


def _own_group(pid: int) -> None:
    """Make the process a group's leader; parent and child both do, for either may be the first to need it."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(pid, pid)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone, now and after an exec."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _replace(command: Sequence[str]) -> None:
    try:
        os.execvp(command[0], list(command))  # noqa: S606  the command is the user's own
    except OSError as error:
        log.error(f"tfdist-launch: cannot run {command[0]!r}: {error.strerror}")
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _run(program: PythonProgram) -> None:
    """Run the program as the interpreter would; what it raises ends this process as it would end it."""
    heartbeat.attach(os.environ)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # each fork would draw the same numbers
    sys.argv = [program.target, *program.arguments]
    if program.is_module:
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(program.target, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(program.target).absolute().parent))
        runpy.run_path(program.target, run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
