"""Every strategy trains, and evaluates as one process does; an asynchronous gang survives the loss of a worker."""

import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tfdist.contract import ExitCode, Role
from tfdist_trainer.checkpoint import CheckpointRecord, FinalRecord, read_record

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = pytest.mark.trainer


def final_record(directory: Path) -> CheckpointRecord:
    final = FinalRecord.model_validate_json((directory / "final.json").read_bytes())
    return read_record(Path(final.path))


def job(directory: Path, **fields: Any) -> dict[str, Any]:
    return {"checkpoint": {"directory": str(directory)} | fields.pop("checkpoint", {})} | fields


def evaluation(launch: "Launch", config: dict[str, Any], directory: Path) -> dict[str, float]:
    evaluated = launch(1, config=config, job=job(directory, task="Evaluate"))
    assert evaluated.wait() == [0], evaluated.output()
    report = evaluated.termination().evaluation
    assert report is not None
    assert report.examples == 101
    return report.metrics


def test_mirrored_over_two_devices_trains_as_one_device_does(
    launch: "Launch", config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = config | {"epochs": 3, "shuffleBuffer": 0, "globalBatchSize": 204}
    del whole["batchSizePerReplica"]
    one = launch(1, config=whole, job=job(tmp_path / "one", strategy="OneDevice"))
    monkeypatch.setenv("TFDIST_LOGICAL_CPUS", "2")
    two = launch(1, config=whole, job=job(tmp_path / "two", strategy="Mirrored"))
    assert one.wait() + two.wait() == [0, 0], one.output() + two.output()
    assert "devices CPU=1" in one.output()
    assert "batchSize=204" in two.output()
    records = [final_record(tmp_path / name).cursor for name in ("one", "two")]
    assert [record.examples for record in records] == [3 * 203] * 2
    assert [record.sharding_signature[1] for record in records] == [1, 2], "the number of replicas"
    assert two.termination().metrics == pytest.approx(one.termination().metrics, rel=1e-5)


@pytest.mark.long
def test_an_asynchronous_gang_survives_a_killed_worker_and_ends_everywhere(
    launch_roles: "Launch", launch: "Launch", config: dict[str, Any], tmp_path: Path
) -> None:
    roles = {"chief": 1, "worker": 2, "ps": 2}
    given = job(tmp_path / "ckpt", strategy="ParameterServer", checkpoint={"everySteps": 100})
    long = config | {"epochs": 40}
    gang = launch_roles(roles, config=long, job=given)
    gang.progress_when(lambda report: (report.step or 0) > 100)
    gang.processes[1].send_signal(signal.SIGKILL)
    assert gang.wait(240) == [0, -signal.SIGKILL, 0, 0, 0], gang.outputs
    cursor = final_record(tmp_path / "ckpt").cursor
    assert cursor.step == 40 * 26
    assert final_record(tmp_path / "ckpt").writer.role is Role.CHIEF
    metrics = evaluation(launch, config, tmp_path / "ckpt")
    assert metrics["accuracy"] > 0.8
    assert np.isfinite(metrics["loss"])


def test_a_lost_parameter_server_ends_the_chief(launch_roles: "Launch", config: dict[str, Any], tmp_path: Path) -> None:
    given = job(tmp_path / "ckpt", strategy="ParameterServer", checkpoint={"everySteps": 100})
    gang = launch_roles({"chief": 1, "worker": 1, "ps": 1}, config=config | {"epochs": 100_000}, job=given)
    gang.progress_when(lambda report: (report.step or 0) > 0)
    gang.processes[2].send_signal(signal.SIGKILL)
    assert gang.processes[0].wait(300) == ExitCode.PEER_LOST, gang.output()
    assert gang.termination().reason == "PeerLost"


@pytest.mark.long
def test_an_embedding_is_divided_over_the_parameter_servers_and_evaluated_exactly(
    launch_roles: "Launch", launch: "Launch", tmp_path: Path
) -> None:
    rows = [f"{word} {other},{kind}" for kind, pair in enumerate(("ab", "cd")) for word in pair for other in pair]
    for split in ("train", "eval"):
        (tmp_path / f"{split}.csv").write_text("text,label\n" + "\n".join(8 * rows) + "\n")
    config = {
        "data": {split: f"{tmp_path}/{split}.csv" for split in ("train", "eval")},
        "classes": 2,
        "maxSequenceLength": 4,
        "embeddingDim": 64,
        "hiddenUnits": 4,
        "epochs": 20,
        "batchSizePerReplica": 8,
        "learningRate": 0.01,
        "minShardBytes": 512,
        "metrics": ["accuracy", "top_2", "precision", "recall", "f1", "auc", "confusion_matrix", "keras.Poisson"],
    }
    given = job(tmp_path / "ckpt", strategy="ParameterServer")
    given["training"] = {"program": "text_classification", "config": config}
    gang = launch_roles({"chief": 1, "worker": 1, "ps": 2}, config={}, job=given, cold=True)  # of another Keras
    assert gang.wait() == [0] * 4, "\n".join(gang.output(number) for number in range(4))
    placed = re.search(r"variable-placement ps-0=(\d+) ps-1=(\d+) shards=(\d+)", gang.output())
    assert placed, gang.output()
    assert int(placed[3]) >= 2, "the embedding is of two shards"
    assert min(int(placed[1]), int(placed[2])) >= 512, "each keeps a part"

    results = []
    for size in (1, 2):  # one after the other: they write into one directory
        evaluated = launch(size, config={}, job=given | {"task": "Evaluate"}, cold=True)
        assert set(evaluated.wait()) == {0}, evaluated.output()
        report = evaluated.termination().evaluation
        assert report is not None
        assert report.examples == 64
        results.append(report.metrics)
    assert results[0]["accuracy"] > 0.9
    assert results[0] == pytest.approx(results[1], rel=1e-6)


def test_an_asynchronous_gang_without_a_chief_is_rejected(launch_roles: "Launch", config: dict[str, Any]) -> None:
    gang = launch_roles({"worker": 1, "ps": 1}, config=config, job={"strategy": "ParameterServer"})
    assert gang.wait() == [ExitCode.CONFIGURATION] * 2
    assert "needs one chief" in gang.termination().message
