"""The running replicas, each below its keeper, and the promise that none of them outlives the run.

Every keeper holds the reading end of one pipe, the lifeline, whose writing end only this process has: when it is
gone, for whatever reason, all keepers see the end of the pipe and stop their replicas. And this process adopts
whatever loses a killed keeper, so that `close` finds it.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

from tfdist.contract import TERMINATION_LOG_ENV
from tfdist.local import keeper
from tfdist.local.process import ReplicaPlan
from tfdist.local.state import State

_KEEPER: Final = str(Path(keeper.__file__))
_KEEPER_SECONDS: Final = 20.0
"""A keeper that was told to kill has ended after so long, or is killed."""


class Processes:
    """Starts replicas, tells how they ended, and stops them; a context that kills what is left."""

    def __init__(self, state: State, inherited: Mapping[str, str]) -> None:
        self._state = state
        self._inherited = inherited
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._lifeline, held = os.pipe()
        self._pipe = [self._lifeline, held]
        keeper.adopt_orphans()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> list[str]:
        """Names of the replicas that have not been seen to end."""
        return list(self._running)

    def start(self, replica: ReplicaPlan) -> None:
        """Start a replica; what it writes goes to its log."""
        words = self._state.termination(replica.name)
        words.unlink(missing_ok=True)
        environment = {**self._inherited, **replica.environment, TERMINATION_LOG_ENV: str(words)}
        command = [sys.executable, "-I", "-S", _KEEPER, str(self._lifeline), str(replica.grace_seconds)]
        with self._state.log(replica.name).open("ab") as log:
            self._running[replica.name] = subprocess.Popen(
                [*command, *replica.command],
                env=environment,
                cwd=replica.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for this process alone: it tells the replicas
                pass_fds=[self._lifeline],
            )

    def ended(self) -> dict[str, int]:
        """Return the exit codes of those that ended since the last call, as a container has them."""
        codes = {name: code for name, process in self._running.items() if (code := process.poll()) is not None}
        for name in codes:
            del self._running[name]
        return {name: code if code >= 0 else 128 - code for name, code in codes.items()}

    def stop(self, names: Iterable[str]) -> None:
        """Have replicas stop within their grace periods."""
        self._signal(names, signal.SIGTERM)

    def kill(self, names: Iterable[str]) -> None:
        """Have replicas end at once."""
        self._signal(names, signal.SIGINT)

    def close(self) -> None:
        """Kill all that is left, whatever it is, and wait for its end."""
        self.kill(self._running)
        for process in self._running.values():
            try:
                process.wait(_KEEPER_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
        keeper.kill_descendants()
        self._running.clear()
        while self._pipe:
            os.close(self._pipe.pop())

    def _signal(self, names: Iterable[str], number: signal.Signals) -> None:
        for name in names:
            if name in self._running:
                self._running[name].send_signal(number)
