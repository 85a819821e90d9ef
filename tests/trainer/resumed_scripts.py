"""The attempts of a job on a Keras script that ends itself now and then (`support/programs/resumed_fit.py`)."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from support.forked import Fork
from support.polling import WAIT_SECONDS, wait_for
from support.ports import free_ports
from trainer import exported

from tfdist.contract import ExitCode
from tfdist.contract_reports import TerminationMessage

PROGRAM: Final = Path(__file__).parents[1] / "support/programs/resumed_fit.py"
STEPS: Final = 3 * 7 + 2 * 4
"""Batches of both calls of `fit` in the script."""
ATTEMPTS: Final = 8


class Script:
    """The script in a folder of its own, which all attempts and workers share.

    Args:
        folder: it does not exist.
        ends: the signals that the script sends to itself.
        workers: their number.
        store: folder or URL for checkpoints and exported models; by default `folder`.
        program: the script; only the model of the default one is exported.
    """

    def __init__(
        self, folder: Path, *ends: str, workers: int = 1, store: str | None = None, program: Path = PROGRAM
    ) -> None:
        folder.mkdir()
        self.folder = folder
        self.exit_codes: list[list[int]] = []
        self.store = store or str(folder)
        self.forks: list[Fork] = []
        """Workers of the last attempt."""
        self._ends, self._workers, self._program = ends, workers, program

    def until_done(self) -> list[Any]:
        """Start the script again until it succeeds, as its job does; return the results of each worker."""
        for _ in range(ATTEMPTS):
            self.start()
            try:
                wait_for("the workers", self._is_over, context=self.outputs)
            finally:
                self.kill()
            if not any(self.exit_codes[-1]):
                return [self.result(rank) for rank in range(self._workers)]
        raise AssertionError(f"ended with {self.exit_codes}\n{self.outputs()}")

    def start(self) -> None:
        """Start the next attempt."""
        self.forks = [*self._started(len(self.exit_codes))]

    def kill(self) -> None:
        """Kill the workers that have not ended, and note how each has ended."""
        for fork in self.forks:
            fork.send_signal(signal.SIGKILL)
        self.exit_codes.append([fork.wait(WAIT_SECONDS) for fork in self.forks])

    def command(self, rank: int) -> list[str]:
        """Return the script of a worker with its arguments."""
        return [str(self._program), str(self.folder / f"{rank}.json"), *self._ends]

    def result(self, rank: int) -> Any:
        """Return what the script of a worker has written at its end."""
        return json.loads((self.folder / f"{rank}.json").read_text())

    def outputs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.txt")))

    def message(self) -> TerminationMessage:
        """Return the termination message of the chief."""
        return TerminationMessage.model_validate_json((self.folder / "0.termination").read_bytes())

    def _started(self, attempt: int) -> Iterator[Fork]:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(self._workers)]
        for rank in range(self._workers):
            place = {"role": "worker", "index": rank, "replicas": {"worker": self._workers}, "attempt": attempt}
            job = {"name": "job", "namespace": "default", "uid": "1", "strategy": "MultiWorkerMirrored"} | place
            job["checkpoint"] = {"directory": f"{self.store}/checkpoints", "everySteps": 4}
            models = {"directory": f"{self.store}/models", "formats": exported.FORMATS, "which": ["Final", "Best"]}
            job |= {"export": models} if self._program == PROGRAM else {}
            environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
            environ |= {"TFDIST_JOB": json.dumps(job), "TFDIST_REPORT_PORT": "0", "CUDA_VISIBLE_DEVICES": ""}
            environ |= {"TFDIST_TERMINATION_LOG": str(self.folder / f"{rank}.termination")}
            if self._workers > 1:
                task = {"type": "worker", "index": rank}
                environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            yield Fork(environ, self.folder / f"{attempt}-{rank}.txt", self.command(rank), self.folder)

    def _is_over(self) -> bool:
        """Return whether all have ended, or one was killed, which the others wait for."""
        codes = [fork.poll() for fork in self.forks]
        return None not in codes or any(code not in {None, 0, ExitCode.PREEMPTED} for code in codes)
