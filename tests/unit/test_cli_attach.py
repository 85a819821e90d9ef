"""What `tfdist attach` shows of a job that it follows."""

from io import StringIO

import pytest
from support.factories import manifest

from tfdist.cli.commands.attach import _Phases
from tfdist.cli.console import RunConsole
from tfdist.client.container_log import LogSource
from tfdist.client.job import Job


def job(step: int, attempt: int = 0) -> Job:
    made = manifest("fashion")
    made["metadata"]["generation"] = 1
    progress = {"step": step, "totalSteps": 96}
    return Job(made | {"status": {"phase": "Running", "attempt": attempt, "progress": progress}})


def source(name: str, attempt: int = 0) -> LogSource:
    return LogSource("pod", "team", "uid", name, 0, attempt, "tensorflow", ended=False)


@pytest.mark.parametrize(("ended", "shown"), [("worker", False), ("evaluator", True)])
def test_the_progress_of_a_replica_that_has_ended_is_not_shown_after_its_last_line(ended: str, shown: bool) -> None:
    """Given the end of worker 0's log, when the job has an older step yet, then it is not shown."""
    stream = StringIO()
    phases = _Phases(RunConsole(stream, ["worker-0"], lambda: 0.0), job(64))
    phases.end_of_log(source(ended))
    phases.update(job(64))
    assert ("step 64" in stream.getvalue()) == shown


def test_a_later_attempt_shows_its_progress() -> None:
    stream = StringIO()
    phases = _Phases(RunConsole(stream, ["worker-0"], lambda: 0.0), job(64))
    phases.end_of_log(source("worker"))
    phases.update(job(70, attempt=1))
    assert "step 70" in stream.getvalue()
