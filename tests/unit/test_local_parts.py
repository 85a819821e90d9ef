"""Parts of a local run in isolation: addresses, logs, progress."""

from datetime import UTC, datetime
from pathlib import Path

from support.factories import manifest

from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport
from tfdist.local import progress
from tfdist.local.engine import stopping_text
from tfdist.local.logs import Tail
from tfdist.local.ports import Addresses, FreePorts
from tfdist.render.gang import training_gang
from tfdist.validation import parse

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB = parse(manifest(strategy="Custom", command=["x"], worker={"replicas": 2}, ps={}))
GANG = training_gang(JOB)


def test_each_port_of_each_replica_maps_to_one_local_port_in_all_texts() -> None:
    ports = iter([4001, 4002, 4003])
    addresses = Addresses(JOB, ["worker-0", "worker-1", "worker-10"], lambda: next(ports))
    first = "worker-0.fashion.team.svc:2222"
    text = f"{first} worker-10.fashion:2222 worker-0.fashion.team:8791 {first}"
    assert addresses.translate(text) == "127.0.0.1:4001 127.0.0.1:4002 127.0.0.1:4003 127.0.0.1:4001"
    assert addresses.port("worker-0", 8791) == 4003
    for other in ("my-worker-0.fashion:1", "worker-1.fashion.org:1", "worker-1:2222", "worker-2.fashion:2222"):
        assert addresses.translate(other) == other


def test_a_reserved_port_can_be_listened_on_and_is_not_allocated_again() -> None:
    import socket  # noqa: PLC0415

    ports = FreePorts()
    taken = {ports.take() for _ in range(50)}
    assert len(taken) == 50
    with socket.create_server(("127.0.0.1", next(iter(taken)))) as server:
        assert server.getsockname()[1] in taken
    ports.close()


def test_a_log_yields_whole_lines_and_the_last_state_of_overwritten_ones(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n10%\r90%\r\ntw")
    tail = Tail(path)
    assert list(tail.lines()) == ["one", "90%"]
    with path.open("ab") as log:
        log.write(b"o\n\xff end")
    assert list(tail.lines()) == ["two"]
    assert list(tail.lines(last=True)) == ["\ufffd end"]


REPORT = ProgressReport.model_validate(
    {
        "role": "worker",
        "index": 0,
        "attempt": 0,
        "phase": "training",
        "step": 30,
        "totalSteps": 120,
        "stepTimeMillis": 1000,
        "examplesPerSecond": 4321.4,
        "metrics": {"loss": 0.25, "accuracy": 0.9},
    }
)


def test_progress_in_a_line() -> None:
    bar = "[=====               ]"
    expected = f"Running  {bar} 25%  step 30 of 120  1m30s left  4,321 examples/s  accuracy 0.900, loss 0.250"
    assert progress.line("Running", REPORT) == expected
    assert progress.line("Running", REPORT.model_copy(update={"step": None})) == "Running  training"
    assert progress.line("Running", None) == "Running"


def test_a_finished_training_has_no_remaining_time() -> None:
    finished = REPORT.model_copy(update={"phase": Phase.FINISHED})
    assert "left" in progress.details(REPORT)
    assert "left" not in progress.details(finished)


def test_a_job_that_stops_shows_no_progress() -> None:
    assert progress.unless_stopping("Running", REPORT) is REPORT
    assert progress.unless_stopping("Suspending", REPORT) is None


def test_the_message_about_stopped_replicas_agrees_with_their_number() -> None:
    one, two = (stopping_text(names, 30, "Ctrl-C") for names in (["worker-0"], ["worker-0", "worker-1"]))
    assert one == "stopping worker-0: it may save for 30 s; a second Ctrl-C kills it"
    assert two == "stopping worker-0, worker-1: they may save for 30 s; a second Ctrl-C kills them"
