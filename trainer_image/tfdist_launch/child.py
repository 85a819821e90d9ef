"""The launcher's hold on its programs: asks the nursery to start them, signals them, and learns how they ended."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tfdist_launch.messages import Outcome
from tfdist_launch.program import Program, environ_of
from tfdist_launch.settings import Options
from tfdist_trainer import log, termination
from tfdist_trainer.heartbeat import STACKS_SIGNAL, Pulse

SIGNALLED: Final = 128
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  files of this process' own folder, in memory

OnEnd = Callable[[int, Outcome], None]


class Child:
    """The program of one round after the other; at most one at a time runs, and one more waits in reserve."""

    def __init__(self, options: Options, environ: Mapping[str, str], on_end: OnEnd) -> None:
        self._options = options
        self._environ = environ
        self._on_end = on_end
        self._final_message = termination.path_from(environ)
        base = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="tfdist-launch-", dir=base, ignore_cleanup_errors=True)
        self._cold = options.cold
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._left = b""
        self._made = 0
        self._program: Program | None = None
        """That of the newest round; it stays for its last report when it has ended."""
        self._reserve: Program | None = None
        self._ready = False
        self._kill_timer: asyncio.TimerHandle | None = None

    @property
    def nursery_pid(self) -> int | None:
        """The process that forks; it is waited for here and by nobody else."""
        return self._process.pid if self._process else None

    @property
    def pulse(self) -> Pulse | None:
        """The signs of life of the newest round's program."""
        return self._program.pulse if self._program else None

    @property
    def standby(self) -> int | None:
        """The round for which a program waits in reserve, with all made ready; None without one."""
        return self._reserve.round if self._reserve and self._reserve.is_ready else None

    def warm_up(self) -> None:
        """Start the nursery, which takes seconds to import TensorFlow."""
        ours, theirs = socket.socketpair()
        mode = "cold" if self._cold else "warm"
        words = [str(theirs.fileno()), str(os.getpid()), mode, "--", *self._options.command]
        command = [sys.executable, "-m", "tfdist_launch.nursery", *words]
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        ours.setblocking(False)
        self._channel, self._left, self._ready = ours, b"", False
        asyncio.get_running_loop().add_reader(ours, self._read)

    def start(self, number: int, *, standby: bool = False, other_port: bool = False) -> bool:
        """Start the program of a round; with `standby` have the one in reserve go on, and return whether there is."""
        old, reserve = self._program, self._reserve
        if old is not None:
            old.close()
        self._reserve = None
        if standby and reserve is not None and reserve.round == number and reserve.go():
            self._program = reserve
            return True
        if reserve is not None:
            self._drop(reserve)
        self._program = self._fork(number, other_port=other_port)
        return False

    def reserve(self, number: int) -> None:
        """Have the program of a later round made ready beside the present one; it must be one that waits at a gate."""
        if self._program is not None and self._ready and not self._cold and self._reserve is None:
            self._reserve = self._fork(number, other_port=not self._program.other_port, gated=True)

    def terminate(self, grace_seconds: float | None, *, at_once: bool = False) -> None:
        """Send SIGTERM, and after `grace_seconds` SIGKILL; with None only SIGTERM.

        With `at_once` a program that loses nothing by it gets SIGKILL alone: one that computes together with a peer
        that is dead hears no SIGTERM before its grace period is over.
        """
        program = self._program
        if program is None:
            return
        if at_once and program.pulse.loses_nothing:
            program.signal(signal.SIGKILL)
            return
        if not program.signal(signal.SIGTERM):
            program.is_killed = True
        if grace_seconds is None:
            return
        loop = asyncio.get_running_loop()
        if self._kill_timer is not None:
            grace_seconds = min(grace_seconds, self._kill_timer.when() - loop.time())
            self._kill_timer.cancel()
        self._kill_timer = loop.call_later(grace_seconds, self._kill)

    def ask_stacks(self) -> bool:
        """Have the program say where its threads are, in `pulse`; False where it cannot."""
        program = self._program
        if program is None or program.pid is None or not program.pulse.can_tell_stacks:
            return False
        program.pulse.clear_stacks()
        os.kill(program.pid, STACKS_SIGNAL)
        return True

    def leave_message(self, text: str | None) -> None:
        """Write the termination message of this replica: `text`, or what its last program has left."""
        text = (self._program.last_words() if self._program else "") if text is None else text
        if text:
            termination.write(self._final_message, text)

    def close(self) -> None:
        """End the nursery, with its programs if there still are any, and remove all files."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for program in (self._program, self._reserve):
            if program is not None:
                program.close()
        self._folder.cleanup()

    def _fork(self, number: int, *, other_port: bool, gated: bool = False) -> Program:
        """Have the nursery start a program."""
        if self._channel is None:
            self.warm_up()
        self._made += 1
        program = Program(self._made, number, Path(self._folder.name), other_port=other_port, gated=gated)
        self._ask(program=program.id, env=environ_of(program, self._environ))
        return program

    def _drop(self, program: Program) -> None:
        """End a program in reserve: whatever is asked for later finds its port free."""
        program.close()
        self._ask(drop=program.id)

    def _ask(self, **request: Any) -> None:
        """Ask the nursery; that it is gone is noticed where it would answer."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.sendall(json.dumps(request).encode() + b"\n")

    def _kill(self) -> None:
        self._kill_timer = None
        if self._program is not None and not self._program.signal(signal.SIGKILL):
            self._program.is_killed = True

    def _read(self) -> None:
        try:
            data = self._channel.recv(1 << 16) if self._channel else b""
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._nursery_gone()
            return
        *lines, self._left = (self._left + data).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))

    def _heard(self, message: Mapping[str, Any]) -> None:
        if "ready" in message:
            self._ready = True
            return
        program = next((p for p in (self._program, self._reserve) if p and p.id == message["program"]), None)
        if program is None:
            return
        if "pid" in message:
            program.pid = message["pid"]
            if program.is_killed:
                program.signal(signal.SIGKILL)
        else:
            self._ended(program, os.waitstatus_to_exitcode(message["status"]))

    def _ended(self, program: Program, code: int) -> None:
        program.pid, ended_before = None, program.has_ended
        program.has_ended = True
        if program is self._reserve:
            log.event("standby-lost", round=program.round, exitCode=code, message=program.last_words() or None)
            self._reserve = None
            program.close()
            return
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None
        if ended_before:
            return
        signalled = -code if code < 0 else None
        exit_code = SIGNALLED + signalled if signalled else code
        self._on_end(program.round, Outcome(exit_code=exit_code, signal=signalled, termination=program.last_words()))

    def _nursery_gone(self) -> None:
        """The nursery has died, and the kernel has killed its programs: go on with a new one."""
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None
        code = self._process.wait() if self._process else 0
        self._process = None
        if not self._ready and not self._cold:
            log.event("cold", reason=f"the warm process ended with {code} while it imported: nothing is forked")
            self._cold = True
        for program in (self._reserve, self._program):
            if program is not None and not program.has_ended:
                self._ended(program, code if code < 0 else -signal.SIGKILL)
