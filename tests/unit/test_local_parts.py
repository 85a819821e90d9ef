"""Parts of a local run in isolation: outcome of a gang, addresses, progress, status."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.factories import manifest

from tfdist.api.policies import FailurePolicy, SuccessPolicy
from tfdist.api.status import JobPhase, TFDistJobStatus
from tfdist.contract import Role
from tfdist.contract_reports import EvaluationReport, ProgressReport
from tfdist.local import progress
from tfdist.local.logs import Tail
from tfdist.local.outcome import Outcome, ReplicaExit, describe, gang_outcome
from tfdist.local.ports import Addresses, FreePorts
from tfdist.local.status import RunState, status
from tfdist.render.gang import training_gang
from tfdist.validation import parse

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
JOB = parse(manifest(strategy="Custom", command=["x"], worker={"replicas": 2}, ps={}))
GANG = training_gang(JOB)
IGNORE_3 = FailurePolicy.model_validate(
    {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [3]}}]}
)


def ends(text: str) -> list[ReplicaExit]:
    """Return terminations from `worker-1:137`."""
    pairs = [part.split(":") for part in text.split()]
    return [ReplicaExit(name, Role(name.rpartition("-")[0]), int(code), "") for name, code in pairs]


@pytest.mark.parametrize(
    ("seen", "success", "wanted"),
    [
        ("", SuccessPolicy.CHIEF, None),
        ("worker-1:0", SuccessPolicy.CHIEF, None),
        ("worker-0:0", SuccessPolicy.CHIEF, "worker-0 0"),
        ("worker-0:0", SuccessPolicy.ALL_WORKERS, None),
        ("worker-0:0 worker-1:0", SuccessPolicy.ALL_WORKERS, "worker-0 0"),
        ("worker-0:0 ps-0:1", SuccessPolicy.CHIEF, "worker-0 0"),
        ("ps-0:1", SuccessPolicy.CHIEF, "ps-0 1"),
        ("worker-0:75", SuccessPolicy.CHIEF, None),
        ("worker-0:75 worker-1:137", SuccessPolicy.CHIEF, "worker-1 137"),
        ("worker-0:75 worker-1:75 ps-0:75", SuccessPolicy.CHIEF, "worker-0 75"),
        ("worker-1:3", SuccessPolicy.CHIEF, None),
        ("worker-0:3", SuccessPolicy.CHIEF, "worker-0 0"),
        ("evaluator-0:1", SuccessPolicy.CHIEF, None),
    ],
)
def test_a_gang_ends_with_its_first_failure_that_is_not_peer_lost_or_with_the_success_of_the_required_replicas(
    seen: str, success: SuccessPolicy, wanted: str | None
) -> None:
    found = gang_outcome(GANG, success, IGNORE_3, ends(seen))
    assert (f"{found.replica} {found.code}" if found else None) == wanted


def test_a_lost_peer_is_the_root_cause_if_no_other_failure_is_observed_in_time() -> None:
    found = gang_outcome(GANG, SuccessPolicy.CHIEF, None, ends("worker-0:75"), peer_grace_over=True)
    assert found == Outcome(75, "worker-0", "PeerLost", "")


def test_a_failure_message_has_replica_exit_code_signal_and_termination_message() -> None:
    assert describe(Outcome(137, "worker-1", "Crash", "loss=0.3")) == (
        "worker-1 ended with exit code 137 (SIGKILL): loss=0.3"
    )


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
    tail.close()


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


def test_the_status_has_the_form_of_a_jobs_on_a_cluster() -> None:
    evaluation = EvaluationReport(step=120, checkpoint="/c/120", metrics={"accuracy": 0.9}, examples=10, time="t")
    state = RunState(
        {Role.WORKER: ["worker-0", "worker-1"], Role.PS: ["ps-0"]},
        phase=JobPhase.FAILED,
        running=["worker-0"],
        codes={"worker-1": 137},
        report=REPORT,
        final=evaluation,
        message="worker-1 ended",
        reason="Crash",
        started=NOW,
        ended=NOW,
    )
    made = status(state, NOW)
    parsed = TFDistJobStatus.model_validate(made)
    assert parsed.replicas is not None
    worker, ps = parsed.replicas["worker"], parsed.replicas["ps"]
    assert (worker.running, worker.failed, worker.pending, ps.pending) == (1, 1, 0, 1)
    assert made["progress"]["percent"] == 25
    assert made["evaluation"]["final"]["examples"] == 10
    assert [(c["type"], c["status"], c["reason"]) for c in made["conditions"]] == [
        ("Evaluated", "True", "Evaluated"),
        ("Failed", "True", "Crash"),
    ]
