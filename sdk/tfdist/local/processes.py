"""Runs replicas, each under an init process, so that no replica outlives the run.

Every init process holds the read end of one pipe, the lifeline; only this process has the write end. When this
process exits, for any reason, all init processes read end of file and stop their replicas. This process is also a
subreaper: it adopts the descendants of an init process that was killed, so that `close` finds them.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

from tfdist.contract import TERMINATION_LOG_ENV
from tfdist.local import init_process
from tfdist.local.env import without_proxies
from tfdist.local.replica_plan import ReplicaPlan
from tfdist.local.run_directory import RunDirectory

_INIT_PROCESS: Final = str(Path(init_process.__file__))
_INIT_SECONDS: Final = 20.0
"""Time limit for an init process to kill its replica after a signal; then it is killed itself."""


class Processes:
    """Starts, reaps and stops replicas; a context manager that kills the remaining ones."""

    def __init__(self, directory: RunDirectory, inherited: Mapping[str, str]) -> None:
        self._directory = directory
        self._inherited = inherited
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lifeline, write_end = os.pipe()
        self._pipe = [self._lifeline, write_end]
        init_process.adopt_orphans()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> list[str]:
        """Names of the replicas whose termination has not been observed."""
        return list(self._running)

    def environment(self, replica: ReplicaPlan) -> dict[str, str]:
        """Return the environment of a replica: the user's, overridden by its pod's."""
        return without_proxies({**self._inherited, **replica.environment})

    def start(self, replica: ReplicaPlan) -> None:
        """Start a replica; its output goes to its log file."""
        self._directory.begin(replica.name, replica.folders)
        termination_log = str(self._directory.termination(replica.name))
        environment = self.environment(replica) | {TERMINATION_LOG_ENV: termination_log}
        command = [sys.executable, "-I", "-S", _INIT_PROCESS, str(self._lifeline), str(replica.grace_seconds)]
        with self._directory.log(replica.name).open("ab") as log:
            self._running[replica.name] = subprocess.Popen(
                [*command, *replica.command],
                env=environment,
                cwd=replica.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches only this process, which stops the replicas
                pass_fds=[self._lifeline],
            )

    def ended(self) -> dict[str, int]:
        """Return the exit codes of replicas that ended since the last call; for a signal 128 plus its number."""
        codes = {name: code for name, process in self._running.items() if (code := process.poll()) is not None}
        for name in codes:
            del self._running[name]
        return {name: code if code >= 0 else 128 - code for name, code in codes.items()}

    def stop(self, names: Iterable[str]) -> None:
        """Send replicas the signal to stop within their grace periods, without waiting."""
        self._signal(names, signal.SIGTERM)

    def kill(self, names: Iterable[str]) -> None:
        """Kill replicas; returns at once."""
        self._signal(names, signal.SIGINT)

    def close(self) -> None:
        """Kill all remaining replicas and descendants, and wait until they have ended."""
        self.kill(self._running)
        for process in self._running.values():
            try:
                process.wait(_INIT_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        init_process.kill_descendants()
        self._running.clear()
        while self._pipe:
            os.close(self._pipe.pop())

    def _signal(self, names: Iterable[str], number: signal.Signals) -> None:
        for name in names:
            if name in self._running:
                self._running[name].send_signal(number)
