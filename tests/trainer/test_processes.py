"""Gangs of one to three processes: the promises that hold only if separate processes keep them together."""

import json
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from trainer.numpy_reference import evaluation_set, metrics_by_numpy, model_variables

from tfdist.contract import ExitCode, Phase
from tfdist.contract_reports import EvaluationReport
from tfdist_trainer.checkpoint import CheckpointReader, CheckpointRecord, FinalRecord, read_record

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer

STEPS = 13
"""Of an epoch of two workers: the fuller one has 102 examples, 8 at a time."""
ENDLESS = {"epochs": 1_000_000}
"""For a training that a test interrupts: it cannot end before that, however late the signal comes."""


def two_epochs_after(step: int) -> int:
    """Return a number of epochs that a training has not reached at `step`."""
    return step // STEPS + 2


def job(directory: Path, **fields: Any) -> dict[str, Any]:
    checkpoint = {"directory": str(directory)} | fields.pop("checkpoint", {})
    return {"checkpoint": checkpoint} | fields


def final_record(directory: Path) -> CheckpointRecord:
    final = FinalRecord.model_validate_json((directory / "final.json").read_bytes())
    return read_record(Path(final.path))


@pytest.mark.long
def test_evaluation_equals_numpy_for_any_number_of_processes(
    launch: "Launch", config: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "trained"
    trained = launch(2, config=config | {"epochs": 3}, job=job(directory), cold=True)
    assert trained.wait() == [0, 0], trained.output() + trained.output(1)
    record = final_record(directory)
    assert record.cursor.examples == 3 * 203
    assert (record.writer.role, record.writer.index, record.writer.attempt) == ("worker", 0, 0)
    written = sorted(path.name for path in directory.iterdir())
    steps = [STEPS, 2 * STEPS, 3 * STEPS]
    assert written == [*(f"checkpoint-{step:09d}" for step in steps), "fence.json", "final.json", "tensorboard"]

    expected = metrics_by_numpy(directory / "checkpoint-000000039", *evaluation_set(data))
    by_npz = config | {"data": {"eval": f"{data}/eval-*.npz"}}
    copies = {size: Path(shutil.copytree(directory, tmp_path / str(size))) for size in (1, 2, 3)}  # one writer each
    gangs = {
        size: launch(size, config=by_npz if size == 1 else config, job=job(copy, task="Evaluate"))
        for size, copy in copies.items()
    }
    for size, gang in gangs.items():
        assert gang.wait() == [0] * size, [gang.output(index) for index in range(size)]
        reports = [gang.termination(index).evaluation for index in range(size)]
        for report in reports:
            assert report is not None
            assert report.examples == 101
            assert report.step == 39
            assert report.metrics["accuracy"] == pytest.approx(expected["accuracy"], rel=1e-9)
            assert report.metrics["loss"] == pytest.approx(expected["loss"], rel=1e-6)
        stored = EvaluationReport.model_validate_json((copies[size] / "evaluation" / "39.json").read_bytes())
        assert stored.metrics == pytest.approx(expected, rel=1e-6)


def test_two_workers_with_uneven_shards_train_as_one_process_does(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    # One step an epoch, with all examples: two processes have 102 and 101 of them, one has 203.
    whole = config | {"epochs": 3, "shuffleBuffer": 0}
    one = launch(1, config=whole | {"batchSizePerReplica": 203}, job=job(tmp_path / "one"))
    two = launch(2, config=whole | {"batchSizePerReplica": 102}, job=job(tmp_path / "two"))
    assert one.wait() + two.wait() == [0, 0, 0], one.output() + two.output()
    by_one = model_variables(tmp_path / "one" / "checkpoint-000000003")
    by_two = model_variables(tmp_path / "two" / "checkpoint-000000003")
    for shape, value in by_one.items():
        np.testing.assert_allclose(by_two[shape], value, rtol=1e-3, atol=1e-5)
    assert two.termination().metrics == {"loss": pytest.approx(one.termination().metrics["loss"], rel=1e-5)} | {
        "accuracy": pytest.approx(one.termination().metrics["accuracy"], abs=1e-9)
    }


@pytest.mark.long
def test_a_gang_killed_and_started_again_resumes_where_its_checkpoint_was(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    settings = {"everySteps": 50, "keep": 2}
    first = launch(2, config=config | ENDLESS, job=job(tmp_path, checkpoint=settings))
    first.progress_when(lambda report: report.last_checkpoint is not None and report.step is not None)
    first.processes[1].send_signal(signal.SIGKILL)
    assert first.wait()[0] == ExitCode.PEER_LOST, first.output()
    assert first.termination().reason == "PeerLost"

    newest = CheckpointReader(tmp_path).newest()
    assert newest is not None
    epochs = two_epochs_after(newest.cursor.step)
    long = config | {"epochs": epochs}
    second = launch(2, config=long, job=job(tmp_path, attempt=1, checkpoint=settings))
    assert second.wait() == [0, 0], second.output() + second.output(1)
    assert "restored step=" in second.output(0)
    assert "restored step=" in second.output(1)
    record = final_record(tmp_path)
    assert record.cursor.step == epochs * STEPS
    assert record.cursor.examples == epochs * 203, "an example was repeated or skipped"
    assert record.writer.attempt == 1
    assert len(list(tmp_path.glob("checkpoint-*"))) == 2
    assert not list(tmp_path.glob(".tmp-*"))

    late = launch(1, config=long, job=job(tmp_path, attempt=0))
    assert late.wait() == [ExitCode.CHECKPOINT_UNWRITABLE]
    assert "attempt 1" in late.termination().message


def test_sigterm_saves_an_agreed_step_and_the_next_attempt_ends_as_if_nothing_had_been(
    launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    rarely = {"everySteps": 1_000_000}
    stopped = launch(2, config=config | ENDLESS, job=job(tmp_path / "stopped", checkpoint=rarely))
    stopped.progress_when(lambda report: (report.step or 0) > 20)
    stopped.processes[1].send_signal(signal.SIGTERM)  # SIGTERM to one member, and all stop
    assert stopped.wait() == [ExitCode.PREEMPTED] * 2, stopped.output() + stopped.output(1)
    message = stopped.termination(1)
    assert message.last_checkpoint is not None
    assert message.last_checkpoint.step == message.step

    epochs = two_epochs_after(message.step or 0)
    long = config | {"epochs": epochs}
    resumed = launch(2, config=long, job=job(tmp_path / "stopped", attempt=1, checkpoint=rarely))
    unbroken = launch(2, config=long, job=job(tmp_path / "unbroken", checkpoint=rarely))
    assert resumed.wait() == [0, 0], resumed.output()
    assert unbroken.wait() == [0, 0], unbroken.output()
    assert final_record(tmp_path / "stopped").cursor.examples == epochs * 203
    last = f"checkpoint-{epochs * STEPS:09d}"
    expected = model_variables(tmp_path / "unbroken" / last)
    for shape, value in model_variables(tmp_path / "stopped" / last).items():
        np.testing.assert_allclose(value, expected[shape], rtol=1e-2, atol=1e-3)


def test_the_report_port_answers_from_the_first_moment_and_while_training(
    launch: "Launch", config: dict[str, Any]
) -> None:
    replica = launch(1, config=config | {"epochs": 100_000}, cold=True)
    assert replica.progress_when(lambda _: True).phase is Phase.STARTING, "the server must not wait for TensorFlow"
    training = replica.progress_when(lambda report: report.phase is Phase.TRAINING)
    assert training.total_steps == 100_000 * 26
    assert set(training.metrics) == {"loss", "accuracy"}
    later = replica.progress_when(lambda report: (report.step or 0) > (training.step or 0))
    assert (later.examples or 0) > (training.examples or 0)
    assert replica.get("/healthz") == "ok\n"
    assert "MainThread" in (replica.get("/v1/stacks") or "")
    assert 'tfdist_trainer_step{role="worker",index="0",attempt="0"}' in (replica.get("/metrics") or "")
    assert replica.get("/nothing") is None
    replica.processes[0].send_signal(signal.SIGTERM)
    assert replica.wait() == [128 + signal.SIGTERM], "without a checkpoint there is nothing to save"
    assert replica.termination().reason == "Terminated"


def test_a_damaged_file_ends_the_job_with_its_name_and_record(
    launch: "Launch", config: dict[str, Any], data: Path, tmp_path: Path
) -> None:
    content = bytearray((data / "train-0.tfrecord").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "bad.tfrecord").write_bytes(content)
    replica = launch(1, config=config | {"data": {"train": f"{tmp_path}/bad.tfrecord"}})
    assert replica.wait() == [ExitCode.DATA_MALFORMED]
    assert f"{tmp_path}/bad.tfrecord" in replica.termination().message
    assert json.loads(replica.termination().to_json())["reason"] == "DataMalformed"
