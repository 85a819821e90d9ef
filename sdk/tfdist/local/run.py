"""Runs a prepared job, reports its end, and returns its exit code.

SIGINT and SIGTERM suspend the job: its replicas stop within their grace periods; a second signal kills them. No process
remains when `run` returns, in any case.
"""

import contextlib
import time
from collections.abc import Mapping

from pydantic import ValidationError

from tfdist.api.status import ConditionType, TFDistJobStatus
from tfdist.contract_reports import TerminationMessage
from tfdist.local.console import Console
from tfdist.local.engine import Engine
from tfdist.local.interrupt import Interrupts
from tfdist.local.job import LocalJob
from tfdist.local.processes import Processes
from tfdist.local.run_directory import RunDirectory
from tfdist.outcome import exit_code, find_condition
from tfdist.progress import duration
from tfdist.status.conditions import is_true


def run(local: LocalJob, directory: RunDirectory, console: Console, inherited: Mapping[str, str]) -> int:
    """Run the job to its end and return its exit code.

    It is 0 for a job that succeeded, 124 for one that exceeded a deadline, otherwise the exit code of the replica which
    failed the job; 128 plus the number of the signal for a job that a signal suspended.
    """
    start = time.monotonic()
    with Interrupts() as interrupts, Processes(directory, inherited) as processes:
        engine = Engine(local, directory, console, processes, interrupts)
        engine.run()
        console.close()
        elapsed, status = duration(time.monotonic() - start), engine.status
        if is_true(status, ConditionType.SUCCEEDED):
            console.message(f"Succeeded in {elapsed}: {_message(status, ConditionType.SUCCEEDED)}")
            return 0
        if is_true(status, ConditionType.SUSPENDED):
            console.message(
                f"Suspended after {elapsed} by {interrupts.name}{_checkpoint_text(local, directory, status)}"
            )
            return interrupts.code
        console.message(f"Failed after {elapsed}: {_message(status, ConditionType.FAILED)}")
        return exit_code(status)


def _message(status: TFDistJobStatus, kind: ConditionType) -> str:
    condition = find_condition(status, kind)
    return condition.message if condition else ""


def _checkpoint_text(local: LocalJob, directory: RunDirectory, status: TFDistJobStatus) -> str:
    """Return the checkpoint from which the next run resumes, as the end of a sentence."""
    checkpoint = status.progress.last_checkpoint if status.progress else None
    step = checkpoint.step if checkpoint else None
    with contextlib.suppress(ValidationError):
        leader = next(iter(local.replicas))
        message = TerminationMessage.model_validate_json(directory.message(leader, failed=False))
        step = message.last_checkpoint.step if message.last_checkpoint else step
    return "" if step is None else f"; the last checkpoint is of step {step}"
