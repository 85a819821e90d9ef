"""Supervises the training processes of one launcher: starts them through the fork server, signals and reaps them."""

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

from tfdist_launch.cgroup import CgroupMemory
from tfdist_launch.messages import ExitResult
from tfdist_launch.process import TrainingProcess, process_variables
from tfdist_launch.settings import Options
from tfdist_trainer import log, termination
from tfdist_trainer.heartbeat import STACKS_SIGNAL, HeartbeatReader

SIGNAL_EXIT_CODE: Final = 128
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  files in a folder of this process, in memory

OnExit = Callable[[int, ExitResult], None]


class ProcessSupervisor:
    """The training processes, one after the other: at most one runs, and at most one standby process waits."""

    def __init__(self, options: Options, environ: Mapping[str, str], on_exit: OnExit) -> None:
        """`on_exit` is called with the round of a process that has exited, or was stopped."""
        self._options = options
        self._environ = environ
        self._on_exit = on_exit
        self._termination_log = termination.path_from(environ)
        # In memory, if the container has it: heartbeats are written twice a second.
        base = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="tfdist-launch-", dir=base, ignore_cleanup_errors=True)
        self._cold = options.cold
        self._fork_server: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._buffer = b""
        self._created = 0
        self._process: TrainingProcess | None = None
        """Of the newest round; kept after its exit, for its last report."""
        self._standby: TrainingProcess | None = None
        self._imported = False
        self._kill_timer: asyncio.TimerHandle | None = None
        self._memory = CgroupMemory()
        self._oom_kills = self._memory.oom_kills()
        """OOM kills in the container before the process of this round."""

    @property
    def fork_server_pid(self) -> int | None:
        """The PID of the fork server; only this class waits for its exit."""
        return self._fork_server.pid if self._fork_server else None

    @property
    def heartbeat(self) -> HeartbeatReader | None:
        """The heartbeat of the process of the newest round."""
        return self._process.heartbeat if self._process else None

    @property
    def standby(self) -> int | None:
        """The round that the standby process is ready for; None if there is none, or it is not ready."""
        return self._standby.round if self._standby and self._standby.is_ready else None

    def start_fork_server(self) -> None:
        """Start the fork server, which takes seconds to import TensorFlow."""
        parent_end, child_end = socket.socketpair()
        mode = "cold" if self._cold else "warm"
        arguments = [str(child_end.fileno()), str(os.getpid()), mode, "--", *self._options.command]
        command = [sys.executable, "-m", "tfdist_launch.fork_server", *arguments]
        # A session of its own: a signal to the group of process 1, as from a terminal, must not end it before its
        # processes.
        self._fork_server = subprocess.Popen(command, pass_fds=[child_end.fileno()], start_new_session=True)
        child_end.close()
        parent_end.setblocking(False)
        self._channel, self._buffer, self._imported = parent_end, b"", False
        asyncio.get_running_loop().add_reader(parent_end, self._read)

    def start(self, number: int, *, standby: bool = False, other_port: bool = False) -> bool:
        """Start the process of a round.

        With `standby` the standby process continues as this process if it is ready. Return whether it does.
        """
        previous, waiting = self._process, self._standby
        # Its files stay until the next round: the last report is read from them.
        if previous is not None:
            previous.close()
        self._standby = None
        # `standby` is the leader's word that all members have one; any other case starts cold.
        if standby and waiting is not None and waiting.round == number and waiting.release():
            self._process = waiting
            return True
        # Its port is the one that the new process needs.
        if waiting is not None:
            self._drop(waiting)
        self._process = self._fork(number, other_port=other_port)
        return False

    def prepare_standby(self, number: int) -> None:
        """Start the standby process of a later round. The command must be one that waits at the start barrier."""
        # Only a fork of an imported TensorFlow is worth its memory.
        if self._process is not None and self._imported and not self._cold and self._standby is None:
            self._standby = self._fork(number, other_port=not self._process.other_port, standby=True)

    def terminate(self, grace_seconds: float | None, *, at_once: bool = False) -> None:
        """Send SIGTERM, and after `grace_seconds` SIGKILL; with None only SIGTERM.

        With `at_once` a kill-safe process receives SIGKILL immediately: blocked in a collective operation with a dead
        peer it would not handle SIGTERM before the end of its grace period.
        """
        process = self._process
        if process is None:
            return
        if at_once and process.heartbeat.is_kill_safe:
            process.signal(signal.SIGKILL)
            return
        # Its PID is not known yet: the fork server has not answered.
        if not process.signal(signal.SIGTERM):
            process.kill_when_started = True
        if grace_seconds is None:
            return
        loop = asyncio.get_running_loop()
        # The earlier deadline stays: a second request must not prolong the first.
        if self._kill_timer is not None:
            grace_seconds = min(grace_seconds, self._kill_timer.when() - loop.time())
            self._kill_timer.cancel()
        self._kill_timer = loop.call_later(grace_seconds, self._kill)

    def request_stacks(self) -> bool:
        """Make the process dump its stacks, for `heartbeat.stacks()`; return False if it cannot."""
        process = self._process
        if process is None or process.pid is None or not process.heartbeat.can_dump_stacks:
            return False
        # An earlier dump must not be taken for this one.
        process.heartbeat.clear_stacks()
        os.kill(process.pid, STACKS_SIGNAL)
        return True

    def write_termination_message(self, text: str | None) -> None:
        """Write the termination message of this replica: `text`, or with None the one of its last process."""
        text = (self._process.termination_message() if self._process else "") if text is None else text
        if text:
            termination.write(self._termination_log, text)

    def close(self) -> None:
        """Kill the fork server with its processes, and remove all files."""
        if self._fork_server is not None:
            self._fork_server.kill()
            self._fork_server.wait()
        for process in (self._process, self._standby):
            if process is not None:
                process.close()
        self._folder.cleanup()

    def _fork(self, number: int, *, other_port: bool, standby: bool = False) -> TrainingProcess:
        if self._channel is None:
            self.start_fork_server()
        self._created += 1
        folder = Path(self._folder.name)
        process = TrainingProcess(self._created, number, folder, other_port=other_port, standby=standby)
        self._request(program=process.id, env=process_variables(process, self._environ))
        return process

    def _drop(self, process: TrainingProcess) -> None:
        """Kill a standby process, before the next request is handled: then its port is free again."""
        process.close()
        self._request(drop=process.id)

    def _request(self, **request: Any) -> None:
        """Send a request to the fork server. Its exit is noticed when its response is read."""
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.sendall(json.dumps(request).encode() + b"\n")

    def _kill(self) -> None:
        self._kill_timer = None
        if self._process is not None and not self._process.signal(signal.SIGKILL):
            self._process.kill_when_started = True

    def _read(self) -> None:
        try:
            # Not blocking: one call reads what has arrived, and lines may be cut.
            data = self._channel.recv(1 << 16) if self._channel else b""
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._replace_fork_server()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            self._handle_reply(json.loads(line))

    def _handle_reply(self, message: Mapping[str, Any]) -> None:
        if "ready" in message:
            self._imported = True
            return
        process = next((p for p in (self._process, self._standby) if p and p.id == message["program"]), None)
        if process is None:
            return
        if "pid" in message:
            process.pid = message["pid"]
            if process.kill_when_started:
                process.signal(signal.SIGKILL)
        else:
            self._handle_exit(process, os.waitstatus_to_exitcode(message["status"]))

    def _handle_exit(self, process: TrainingProcess, code: int) -> None:
        # The PID may be another process's from now on.
        process.pid, exited_before = None, process.has_exited
        process.has_exited = True
        # Correctness never depends on it (ADR 17): the next restart is cold.
        if process is self._standby:
            message = process.termination_message() or None
            log.event("standby-lost", round=process.round, exitCode=code, message=message)
            self._standby = None
            process.close()
            return
        if self._kill_timer is not None:
            self._kill_timer.cancel()
            self._kill_timer = None
        # Reported already, when the fork server itself was lost.
        if exited_before:
            return
        number = -code if code < 0 else None
        result = ExitResult(
            exit_code=SIGNAL_EXIT_CODE + number if number else code,
            signal=number,
            termination=process.termination_message(),
            out_of_memory=self._oom_text(),
        )
        self._on_exit(process.round, result)

    def _oom_text(self) -> str:
        """Return a description of the OOM kills since the last call; "" if there were none."""
        before, self._oom_kills = self._oom_kills, self._memory.oom_kills()
        if self._oom_kills <= before:
            return ""
        return f"the OOM killer killed a process{self._memory.limit_text()}: raise resources.limits.memory"

    def _replace_fork_server(self) -> None:
        """Continue with a new fork server; the kernel has killed the processes of the old one."""
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            self._channel.close()
            self._channel = None
        code = self._fork_server.wait() if self._fork_server else 0
        self._fork_server = None
        # It would fail again in the same import: from now on each process imports for itself.
        if not self._imported and not self._cold:
            log.event("cold-start", reason=f"the fork server exited with {code} during its imports: it forks nothing")
            self._cold = True
        for process in (self._standby, self._process):
            if process is not None and not process.has_exited:
                self._handle_exit(process, code if code < 0 else -signal.SIGKILL)
