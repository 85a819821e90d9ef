"""Log lines of several replicas on the console, and the queue that they come through."""

import io
import re
import threading

import pytest
from support.factories import manifest
from support.polling import wait_for

from tfdist.cli.console import RunConsole
from tfdist.cli.errors import CommandError
from tfdist.cli.log_view import LogView, check_replica, replica_names, shown_replicas
from tfdist.client.event_queue import EventQueue, Source
from tfdist.client.job import Job
from tfdist.client.log_stream import LogLine


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

    assert shown_replicas(job, all_replicas=False) == frozenset({"worker-0", "evaluator-0"})
    assert "21 replicas: only the log of worker-0, evaluator-0, which lead, is shown" in capsys.readouterr().err
    assert shown_replicas(job, all_replicas=True) is None
    assert len(replica_names(job)) == 21


def test_the_replicas_of_each_role_are_named_where_one_does_not_exist() -> None:
    job = Job(manifest(chief={"replicas": 1}, worker={"replicas": 3}))

    with pytest.raises(CommandError, match="no replica ps-0: it has chief-0, worker-0 to worker-2"):
        check_replica(job, "ps-0")


def test_lines_of_one_source_are_taken_together_and_in_order() -> None:
    events: EventQueue[str] = EventQueue()
    one, other = Source(), Source()
    events.put(["a"], one)
    events.put(["x"], other)
    events.put(["b"], one)
    events.put(["job"])
    events.put(["c"], one)

    assert events.take() == [["a", "b"], ["x"], ["job"], ["c"]]
    assert events.take(seconds=0) == []


def test_a_source_with_too_much_waits_for_the_reader_and_others_do_not() -> None:
    """Given two lines that fill the room of a source; then its third one is added after these have been taken."""
    events: EventQueue[int] = EventQueue()
    added: list[int] = []

    def add() -> None:
        source = Source()
        for number in range(3):
            events.put([number], source, size=2**18)
            added.append(number)

    thread = threading.Thread(target=add)
    thread.start()
    wait_for("two lines", lambda: len(added) == 2)
    events.put([7], Source(), size=1)

    assert events.take() == [[0, 1], [7]]
    assert events.take() == [[2]]
    thread.join()


def test_a_source_that_waits_ends_with_its_reader() -> None:
    events: EventQueue[int] = EventQueue()
    source = Source()
    source.added = 2**30

    events.close()
    events.put([1], source, size=1)

    assert events.is_empty()
