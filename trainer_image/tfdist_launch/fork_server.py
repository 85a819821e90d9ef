"""The fork server: has imported TensorFlow, has a single Python thread, and forks the training process of each round.

Process 1 must stay small and responsive, so it does not fork training processes itself but sends requests to this one:

    launcher -> fork server   {"program": 3, "env": {...}}   start a training process with the identifier 3
                              {"drop": 3}                    kill it, and handle the next request when it has exited
    fork server -> launcher   {"ready": true}                the imports are done
                              {"program": 3, "pid": 71}      it was started, as the leader of a process group
                              {"program": 3, "status": 9}    it has exited, with its group; `status` as of waitpid

A Python command runs in the fork as `__main__`; any other command, and every command with `--cold`, is started by exec
in the fork; its standard error is then copied on, and the end of it kept as the cause of a failure. When the launcher
is killed the kernel kills this process, and with it the training process.
"""

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tfdist.failure_text import cause_in
from tfdist_trainer import heartbeat, log, preload, script_end, termination
from tfdist_trainer.python_command import PythonCommand, parse_python_command
from tfdist_trainer.termination import write_unless_present

_TAIL_BYTES: Final = 4096
_READ_BYTES: Final = 64 * 1024
_STANDARD_ERROR: Final = 2


class CapturedErrors:
    """A pipe for the standard error of one process, copied on to the standard error of this process."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        self._end = b""

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._reading

    def attach(self) -> None:
        """Make the pipe the standard error of this process, the fork."""
        os.close(self._reading)
        os.dup2(self._writing, _STANDARD_ERROR)
        os.close(self._writing)

    def begin(self) -> None:
        """Leave the writing end to the fork."""
        os.close(self._writing)

    def copy(self) -> bool:
        """Copy what the process has written; return whether it may write more."""
        while True:
            try:
                data = os.read(self._reading, _READ_BYTES)
            except BlockingIOError:
                return True
            if not data:
                return False
            # A cause is in the last lines; a log may be of any size.
            self._end = (self._end + data)[-_TAIL_BYTES:]
            with contextlib.suppress(OSError):  # the log may have no reader any more, which must not end the process
                while data:
                    data = data[os.write(_STANDARD_ERROR, data) :]

    def finish(self, message: Path | None) -> None:
        """Copy what remains, and write its cause as the termination message if there is none; None writes nothing."""
        self.copy()
        os.close(self._reading)
        cause = cause_in(self._end.decode("utf-8", "replace"))
        if message is not None and cause:
            write_unless_present(message, cause)


NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_PR_SET_PDEATHSIG: Final = 1


class _Child:
    """A training process, as the fork server knows it."""

    def __init__(self, id_: int, message: Path, errors: CapturedErrors | None) -> None:
        self.id = id_
        self.errors = errors
        self.open = True
        """Whether the process may write more to its standard error."""
        self._message = message
        if errors is not None:
            errors.begin()

    def copy(self) -> None:
        """Copy what the process has written to its standard error."""
        self.open = self.errors is not None and self.errors.copy()

    def finish(self, *, failed: bool) -> None:
        """Copy what remains, and write the termination message of a failed process."""
        if self.errors is not None:
            self.errors.finish(self._message if failed else None)


def main(arguments: Sequence[str]) -> None:
    """Serve the launcher at the socket of descriptor `arguments[0]`; in a fork, return after the training process."""
    parent, command = int(arguments[1]), arguments[4:]
    # Before the imports, which take seconds: a launcher that is killed meanwhile must not leave this process.
    _set_parent_death_signal(parent)
    channel = socket.socket(fileno=int(arguments[0]))
    python = None if arguments[2] == "cold" else parse_python_command(command)
    # A runtime or a thread does not survive a fork (ADR 15): then each process is started by exec.
    if python is not None and not _preload(python):
        python = None
    # Python commands write their own cause; of any other command only the end of its standard error is known.
    request = _serve(channel, captures=python is None)
    if request is None:
        return
    os.environ.update(request["env"])
    if python is None:
        _exec(command)
    else:
        _run(python)


def _preload(python: PythonCommand) -> bool:
    """Import the modules of the training process; return whether this process may be forked afterwards."""
    if python.is_trainer:
        preload.trainer()
    else:
        preload.script()
    # Checked, not assumed: a later version of TensorFlow, or a module of the image, may start threads on import.
    if preload.is_started() or threading.active_count() > 1:
        reason = "an imported module has started TensorFlow's runtime or a thread: the fork server forks nothing"
        log.event("cold-start", reason=reason)
        return False
    # What is garbage now would stay frozen in all forks.
    gc.collect()
    gc.freeze()  # a collection in a fork would write to, and so copy, every page with an object
    return True


def _serve(channel: socket.socket, *, captures: bool) -> dict[str, Any] | None:
    """Start training processes until the launcher has exited; in the fork of one, return its request.

    With `captures` the end of a process's standard error is its termination message, unless it has written one.
    """
    # SIGCHLD must wake `select`: a signal handler alone would leave an exit unnoticed until the next request.
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    _send(channel, ready=True)
    processes: dict[int, _Child] = {}
    remaining = b""
    while True:
        outputs = {child.errors.fileno(): child for child in processes.values() if child.errors and child.open}
        ready, _, _ = select.select([channel.fileno(), reading, *outputs], [], [])
        for descriptor in outputs.keys() & ready:
            outputs[descriptor].copy()
        if reading in ready:
            os.read(reading, 4096)
            _reap(channel, processes)
        if channel.fileno() not in ready:
            continue
        data = channel.recv(1 << 16)
        if not data:
            return None
        *lines, remaining = (remaining + data).split(b"\n")
        for line in lines:
            request: dict[str, Any] = json.loads(line)
            if "drop" in request:
                _drop(processes, request["drop"])
                continue
            errors = CapturedErrors() if captures else None
            pid = os.fork()
            if pid == 0:
                _leave_fork_server(channel, (reading, writing))
                if errors is not None:
                    errors.attach()
                return request
            _lead_process_group(pid)
            processes[pid] = _Child(request["program"], termination.path_from(request["env"]), errors)
            _send(channel, program=request["program"], pid=pid)


def _leave_fork_server(channel: socket.socket, pipe: tuple[int, int]) -> None:
    """Undo in a fork the signal handling and the descriptors of the fork server."""
    # A group of its own: signals reach its children too, and not the fork server.
    _lead_process_group(0)
    # Not inherited by a fork.
    _set_parent_death_signal(os.getppid())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    channel.close()
    for descriptor in pipe:
        os.close(descriptor)


def _drop(processes: dict[int, _Child], id_: int) -> None:
    """Kill a process whose exit is not to be reported, and return when its ports are free."""
    for pid in [pid for pid, child in processes.items() if child.id == id_]:
        child = processes.pop(pid)
        _kill(pid)
        os.waitpid(pid, 0)
        child.finish(failed=False)


def _reap(channel: socket.socket, processes: dict[int, _Child]) -> None:
    """Report exited processes, after killing the children that they have left."""
    while processes:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        child = processes.pop(pid, None)
        # An orphan that this process has inherited; nobody asks for it.
        if child is None:
            continue
        # A child that the process has left would hold its ports and GPUs into the next round.
        _kill(pid)
        child.finish(failed=status != 0)
        _send(channel, program=child.id, status=status)


def _kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def _send(channel: socket.socket, **message: Any) -> None:
    channel.sendall(json.dumps(message).encode() + b"\n")


def _lead_process_group(pid: int) -> None:
    """Make the process the leader of a group. Parent and child both do, because either may need it first."""
    with contextlib.suppress(PermissionError, ProcessLookupError):
        os.setpgid(pid, pid)


def _set_parent_death_signal(parent: int) -> None:
    """Make the kernel kill this process when its parent exits, also after an exec."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have exited before the call of prctl, which then never fires.
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _exec(command: Sequence[str]) -> None:
    try:
        os.execvp(command[0], list(command))  # noqa: S606  the command is the user's own
    except OSError as error:
        log.error(f"tfdist-launch: cannot run {command[0]!r}: {error.strerror}")
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)


def _run(python: PythonCommand) -> None:
    """Run a script or module as the interpreter would."""
    # Before the script: the launcher takes a process that never beats for one that cannot hang.
    heartbeat.attach(os.environ)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()  # else each fork would draw the same numbers
    script_end.run(python)


if __name__ == "__main__":
    main(sys.argv[1:])
