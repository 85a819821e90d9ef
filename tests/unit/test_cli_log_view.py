"""Log lines of several replicas on the console."""

import io
import re

import pytest
from support.factories import manifest

from tfdist.cli.commands.logs import LogView, selected_replicas
from tfdist.cli.console import RunConsole
from tfdist.cli.errors import CommandError
from tfdist.client.container_log import LogLine
from tfdist.client.job import Job


def line(replica: str, text: str, attempt: int = 0) -> LogLine:
    return LogLine(replica, attempt, f"fashion-{replica}", "2030-01-01T00:00:00.5Z", text)


def shown(*lines: LogLine, grep: str | None = None, timestamps: bool = False) -> str:
    stream = io.StringIO()
    console = RunConsole(stream, ["worker-0", "evaluator-0"], lambda: 0.0)
    LogView(console, grep=re.compile(grep) if grep else None, timestamps=timestamps).show(lines)
    return stream.getvalue()


def test_a_later_attempt_is_separated_once_for_all_replicas_of_a_gang() -> None:
    output = shown(line("worker-0", "a"), line("ps-0", "b", 1), line("worker-0", "c", 1), line("worker-1", "late"))

    assert output == "worker-0    | a\n---- attempt 1 ----\nps-0        | b\nworker-0    | c\nworker-1    | late\n"


def test_an_evaluator_that_restarts_alone_is_named() -> None:
    output = shown(line("evaluator-0", "a"), line("evaluator-0", "b", 1))

    assert "---- attempt 1 of evaluator-0 ----\n" in output


def test_of_a_line_with_carriage_returns_the_last_state_is_shown() -> None:
    assert shown(line("worker-0", "1/10\r2/10\r3/10")) == "worker-0    | 3/10\n"


def test_lines_are_selected_by_a_regular_expression_and_begin_with_their_times() -> None:
    output = shown(line("worker-0", "loss 1"), line("worker-0", "note"), grep="^2030.*loss", timestamps=True)

    assert output == "worker-0    | 2030-01-01T00:00:00.5Z loss 1\n"


def test_control_characters_do_not_reach_the_terminal_as_such() -> None:
    assert shown(line("worker-0", "a\x07\x08b")) == "worker-0    | a  b\n"


def test_a_large_job_shows_the_replica_that_leads_each_gang(capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = {"directory": "/ckpt", "volume": {"persistentVolumeClaim": {"claimName": "ckpt"}}}
    job = Job(manifest(worker={"replicas": 20}, evaluation={"mode": "Continuous"}, checkpoint=checkpoint))

    assert selected_replicas(job) == frozenset({"worker-0", "evaluator-0"})
    assert "21 replicas: only the log of worker-0, evaluator-0, which lead, is shown" in capsys.readouterr().err
    assert selected_replicas(job, all_replicas=True) is None
    assert len(job.replica_names) == 21


def test_the_replicas_of_each_role_are_named_where_one_does_not_exist() -> None:
    job = Job(manifest(chief={"replicas": 1}, worker={"replicas": 3}))

    with pytest.raises(CommandError, match="no replica ps-0: it has chief-0, worker-0 to worker-2"):
        selected_replicas(job, "ps-0")
