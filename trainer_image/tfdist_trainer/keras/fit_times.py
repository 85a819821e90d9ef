"""The times of the workers' steps in `fit` of a script: shared between the workers, reported, and written.

They are exchanged together with the metrics after the steps of a call. The chief names a slow worker by the rule
of the trainer's own loop (`slow_member`). Without a job, as in a test, they are shared and not reported.
"""

import os
from collections.abc import Sequence
from typing import Any, Final

import keras
import numpy as np

from tfdist_trainer import environment, script
from tfdist_trainer.environment import GangMember
from tfdist_trainer.errors import TrainerError
from tfdist_trainer.gang_times import GangTimes
from tfdist_trainer.keras.progress import REPORT_LOCK
from tfdist_trainer.summaries import Summaries
from tfdist_trainer.upstream.strategy_worker import Worker

SHARE_SECONDS: Final = 0.25
"""Shortest time between two exchanges of times: a call may be one step of milliseconds."""


class FitTimes:
    """The times of the steps of one train function on this worker, and on the chief of all workers."""

    def __init__(self, worker: Worker) -> None:
        self._workers = worker.count
        self._gang = GangTimes(worker.index, worker.count)
        # As many figures in each call: the vector of the exchange has one shape.
        self._nothing = [0.0] * len(self._gang.figures_to_share())
        self._seconds = 0.0
        """Seconds of the steps since the times were shared, equal on all workers, so that all share in one call."""
        self._member = _member()
        self._summaries: Summaries | None = None

    def begin(self, callbacks: Sequence[Any]) -> None:
        """Begin a call of `fit` with these callbacks of the script, which may have a directory for TensorBoard.

        Without `tensorBoard.logDirectory` only the chief writes there, as it does in Keras.
        """
        if self._member is None or self._summaries is not None:
            return
        folder = self._member.job.log_directory
        # Without a directory of the job the script's own is used, which only the chief writes to.
        if folder is None and self._member.is_chief:
            boards = [each for each in callbacks if isinstance(each, keras.callbacks.TensorBoard)]
            folder = str(boards[0].log_dir) if boards else None
        self._summaries = Summaries(self._member, folder, None)

    def end(self) -> None:
        """Remove the slow replica from the report: `fit` has ended."""
        if self._member is not None:
            with REPORT_LOCK:
                script.report_times(slow_replica=None, input_wait_millis=None, exchange_wait_millis=None)
        if self._summaries is not None:
            self._summaries.close()

    def figures_to_share(self) -> list[float]:
        """Return the figures whose means over all workers `receive` takes; equally many on all workers."""
        return self._gang.figures_to_share() if self._is_due else self._nothing

    def receive(self, means: Sequence[float], seconds: float) -> None:
        """Record the means of what `figures_to_share` returned.

        Args:
            means: over all workers, [figures].
            seconds: duration of the steps of this call, equal on all workers.
        """
        # All workers count the same mean seconds, so all share in the same call (ADR 48).
        if self._is_due:
            self._gang.receive(np.asarray(means, np.float64) * self._workers)
            self._seconds = 0.0
        self._seconds += seconds

    def observe(self, steps: int, seconds: float, input_wait: float, exchange_wait: float) -> None:
        """Record and report a call of the train function, as `GangTimes.observe`."""
        self._gang.observe(steps, seconds, input_wait=input_wait, exchange_wait=exchange_wait)
        if self._member is None or not self._is_due:
            return
        with REPORT_LOCK:
            script.report_times(
                slow_replica=self._gang.slow_replica(self._member),
                input_wait_millis=1000 * float(input_wait) / steps,
                exchange_wait_millis=1000 * float(exchange_wait) / steps if exchange_wait else None,
            )
            report = script.current_report()
        if self._summaries is not None:
            self._summaries.write_times(report.model_copy(update={"step_time_millis": 1000 * seconds / steps}))

    @property
    def _is_due(self) -> bool:
        return self._seconds >= SHARE_SECONDS


def _member() -> GangMember | None:
    """Return this replica; None outside of a job."""
    try:
        return environment.read_member(os.environ)
    except TrainerError:
        return None
