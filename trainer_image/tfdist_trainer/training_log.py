"""The log of a training: a line with its progress every few seconds."""

import time
from typing import Final

from tfdist.contract_reports import ProgressReport
from tfdist_trainer import log

LOG_SECONDS: Final = 5.0
"""Shortest time between two lines."""


class TrainingLog:
    """Logs the progress in reports."""

    def __init__(self) -> None:
        self._logged_at = 0.0

    def write(self, report: ProgressReport) -> None:
        """Log `report`, of a training that has a step, unless the last line is recent."""
        if time.monotonic() - self._logged_at < LOG_SECONDS:
            return
        self._logged_at = time.monotonic()
        log.event(
            "train",
            step=f"{report.step}/{report.total_steps}",
            epoch=(report.epoch or 0) + 1,
            examplesPerSecond=report.examples_per_second,
            stepMillis=report.step_time_millis,
            **report.metrics,
        )
