"""The launcher's hold on its program: asks the nursery to start it, signals it, and learns how it ended."""

import asyncio
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

from tfdist.contract import REPORT_PORT_ENV
from tfdist_launch.messages import Outcome
from tfdist_launch.settings import Options
from tfdist_trainer import log, termination
from tfdist_trainer.environment import ROUND_ENV
from tfdist_trainer.heartbeat import HEARTBEAT_ENV, STACKS_SIGNAL, Pulse

SIGNALLED: Final = 128
_MEMORY: Final = Path("/dev/shm")  # noqa: S108  files of this process' own folder, in memory

OnEnd = Callable[[int, Outcome], None]


class Child:
    """The program of one round after the other; at most one at a time."""

    def __init__(self, options: Options, environ: Mapping[str, str], on_end: OnEnd) -> None:
        self._options = options
        self._on_end = on_end
        self._final_message = termination.path_from(environ)
        base = _MEMORY if os.access(_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="tfdist-launch-", dir=base, ignore_cleanup_errors=True)
        self._cold = options.cold
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._left = b""
        self._round: int | None = None
        """The round whose program runs, or is to."""
        self._pid: int | None = None
        self._killing = False
        self._ready = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self.pulse: Pulse | None = None

    @property
    def nursery_pid(self) -> int | None:
        """The process that forks; it is waited for here and by nobody else."""
        return self._process.pid if self._process else None

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

    def start(self, number: int) -> None:
        """Start the program of a round."""
        if self._channel is None:
            self.warm_up()
        self._round, self._pid, self._killing = number, None, False
        self.close_pulse()
        self.pulse = Pulse(Path(self._folder.name, f"heart-{number}"))
        self._message.unlink(missing_ok=True)
        env = {
            HEARTBEAT_ENV: str(self.pulse.path),
            REPORT_PORT_ENV: "0",
            ROUND_ENV: str(number),
            termination.PATH_ENV: str(self._message),
        }
        request = json.dumps({"round": number, "env": env}).encode() + b"\n"
        try:
            assert self._channel is not None  # noqa: S101  made above
            self._channel.sendall(request)
        except OSError:
            self._nursery_gone()

    def terminate(self, grace_seconds: float | None, *, at_once: bool = False) -> None:
        """Send SIGTERM, and after `grace_seconds` SIGKILL; with None only SIGTERM.

        With `at_once` a program that loses nothing by it gets SIGKILL alone: one that computes together with a peer
        that is dead hears no SIGTERM before its grace period is over.
        """
        if at_once and self.pulse is not None and self.pulse.loses_nothing:
            self._signal(signal.SIGKILL)
            return
        if not self._signal(signal.SIGTERM):
            self._killing = True
        if grace_seconds is None:
            return
        loop = asyncio.get_running_loop()
        if self._kill_timer is not None:
            grace_seconds = min(grace_seconds, self._kill_timer.when() - loop.time())
            self._kill_timer.cancel()
        self._kill_timer = loop.call_later(grace_seconds, self._kill)

    def ask_stacks(self) -> bool:
        """Have the program say where its threads are, in `pulse`; False where it cannot."""
        if self.pulse is None or not self.pulse.can_tell_stacks or self._pid is None:
            return False
        self.pulse.clear_stacks()
        os.kill(self._pid, STACKS_SIGNAL)
        return True

    def leave_message(self, text: str | None) -> None:
        """Write the termination message of this replica: `text`, or what its last program has left."""
        text = self._termination() if text is None else text
        if text:
            termination.write(self._final_message, text)

    def close(self) -> None:
        """End the nursery, with its program if there still is one, and remove all files."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self.close_pulse()
        self._folder.cleanup()

    def close_pulse(self) -> None:
        """Forget the heartbeat of the last program."""
        if self.pulse is not None:
            self.pulse.close()
            self.pulse = None

    @property
    def _message(self) -> Path:
        return Path(self._folder.name, "termination")

    def _termination(self) -> str:
        try:
            return self._message.read_text(encoding="utf-8", errors="replace")[:4096]
        except OSError:
            return ""

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the program and all that it has started; False while it has not been started."""
        if self._pid is None:
            return False
        try:
            os.killpg(self._pid, number)
            if number is signal.SIGTERM:
                os.killpg(self._pid, signal.SIGCONT)  # one that was stopped would not hear it
        except ProcessLookupError:
            pass
        return True

    def _kill(self) -> None:
        self._kill_timer = None
        if not self._signal(signal.SIGKILL):
            self._killing = True

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
        elif message["round"] != self._round:
            return
        elif "pid" in message:
            self._pid = message["pid"]
            if self._killing:
                self._signal(signal.SIGKILL)
        else:
            self._ended(os.waitstatus_to_exitcode(message["status"]))

    def _ended(self, code: int) -> None:
        number, self._round, self._pid = self._round, None, None
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None
        if number is None:
            return
        signalled = -code if code < 0 else None
        exit_code = SIGNALLED + signalled if signalled else code
        self._on_end(number, Outcome(exit_code=exit_code, signal=signalled, termination=self._termination()))

    def _nursery_gone(self) -> None:
        """The nursery has died, and the kernel has killed its program: go on with a new one."""
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None
        code = self._process.wait() if self._process else 0
        self._process = None
        if not self._ready and not self._cold:
            log.event("cold", reason=f"the warm process ended with {code} while it imported: nothing is forked")
            self._cold = True
        if self._round is not None:
            self._ended(code if code < 0 else -signal.SIGKILL)
