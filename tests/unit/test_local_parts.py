"""Parts of a local run in isolation: addresses, logs, silence, progress."""

import json
import socket
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.factories import manifest

from tfdist.contract import Phase
from tfdist.contract_reports import ProgressReport
from tfdist.local import progress
from tfdist.local.engine import stopping_text
from tfdist.local.logs import Tail, shows_info, without_info
from tfdist.local.ports import Addresses, FreePorts
from tfdist.local.silence import SilenceDetector, listening_ports, silence_message, tensorflow_port
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
        "stepTimeMillis": 500,
        "remainingSeconds": 90,
        "examplesPerSecond": 4321.4,
        "metrics": {"loss": 0.25, "accuracy": 0.9},
    }
)


def test_progress_in_a_line() -> None:
    bar = "[=====               ]"
    expected = f"Running  {bar} 25%  step 30 of 120  1m30s left  4,321 examples/s  accuracy 0.900, loss 0.250"
    assert progress.line("Running", REPORT) == expected
    assert " 33%  step 30 of 120" in progress.line("Running", REPORT.model_copy(update={"percent": 33.4}))
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


def test_the_pending_members_of_a_rendezvous_are_in_the_line() -> None:
    waits = {"step": None, "phase": "rendezvous", "waiting_for": ["127.0.0.1:2222"]}
    assert (
        progress.line("Running", REPORT.model_copy(update=waits)) == "Running  rendezvous, waiting for 127.0.0.1:2222"
    )


def test_info_of_tensorflow_is_not_shown_and_all_else_is() -> None:
    info = [
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1795614036.863472    1639 port.cc:153] oneDNN custom operations are on.",
        "I0000 00:00:1795614030.211263    1324 coordination_service.cc:221] Initializing CoordinationService",
    ]
    kept = [
        "W0000 00:00:1795614037.505840    1639 gpu_device.cc:2341] Cannot dlopen some GPU libraries.",
        "E0000 00:00:1795614037.505840    1639 cuda_driver.cc:266] failed call to cuInit",
        "I1125 13:40:27.000000 140 train.py:7] step 3",  # the program's own messages, by absl-py
        "epoch 1",
        "",
    ]
    assert list(without_info(iter([info[0], info[1], *kept, info[2]]))) == kept


@pytest.mark.parametrize(("level", "shown"), [(None, False), ("0", True), ("1", False), ("2", False)])
def test_info_of_tensorflow_is_shown_at_level_0(level: str | None, shown: bool) -> None:
    assert shows_info({"TF_CPP_MIN_LOG_LEVEL": level} if level else {}) is shown


def test_a_silence_is_reported_after_30_s_and_each_time_it_has_doubled() -> None:
    # given a run that starts at 0 s and prints at 25 s
    detector = SilenceDetector(0)
    assert detector.due(25) is None
    detector.on_output(25)
    # when it prints nothing more
    reported = [now for now in range(30, 300) if detector.due(now) is not None]
    # then
    assert reported == [25 + 30, 25 + 60, 25 + 120, 25 + 240]
    detector.on_output(300)
    assert detector.due(329) is None
    assert detector.due(330) == 30


def test_the_message_names_the_replicas_and_those_that_do_not_listen() -> None:
    running = ["worker-0", "worker-1"]
    text = "no output for 31s, since the last line or start of a replica; running: worker-0, worker-1"
    assert silence_message(31, running, []) == text
    missing = "; worker-1 does not listen on the address in TF_CONFIG yet"
    assert silence_message(31, running, ["worker-1"]) == text + missing
    assert "worker-0, worker-1 do not listen" in silence_message(31, running, running)


def test_the_port_of_a_replica_is_that_of_its_task_in_tf_config() -> None:
    cluster = {"worker": ["127.0.0.1:41", "127.0.0.1:42"]}

    def port(task: dict[str, object]) -> int | None:
        return tensorflow_port({"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})

    assert port({"type": "worker", "index": 1}) == 42
    assert port({"type": "evaluator", "index": 0}) is None, "it is no member of the cluster"
    assert tensorflow_port({}) is None
    assert tensorflow_port({"TF_CONFIG": "{"}) is None


def test_a_port_listens_once_a_process_accepts_connections_on_it() -> None:
    ports = FreePorts()
    number = ports.take()
    assert number not in listening_ports(), "reserved only"
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", number))
        server.listen()
        assert number in listening_ports()
    ports.close()
