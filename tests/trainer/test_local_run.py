"""`tfdist run --local` with the real trainer: it trains, evaluates, and has the status of a job in a cluster."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tfdist.api.status import TFDistJobStatus

pytestmark = pytest.mark.trainer

SECONDS = 300
GANGS: dict[str, dict[str, Any]] = {
    "together": {"worker": {"replicas": 2}, "evaluation": {"mode": "Both"}},
    "asynchronous": {"strategy": "ParameterServer", "chief": {}, "worker": {}, "ps": {}},
}


class Ran:
    """A finished run."""

    def __init__(self, folder: Path, code: int, output: str) -> None:
        self.code, self.output = code, output
        self.state = folder / ".tfdist" / "flowers"
        self.status = TFDistJobStatus.model_validate_json((self.state / "status.json").read_bytes())


def manifest(data: Path, config: dict[str, Any], roles: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "training": {
            "program": "image_classification",
            "config": config | {"data": {"train": "/data/train-*", "eval": "/data/eval-*.tfrecord"}, "epochs": 2},
        },
        "checkpoint": {"directory": "/ckpt/{name}", "volume": {"persistentVolumeClaim": {"claimName": "saved"}}},
        "evaluation": {"mode": "AfterTraining"},
        "runtime": {"intraOpThreads": 1, "interOpThreads": 1},
        "volumes": [{"name": "data", "hostPath": {"path": str(data)}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": True}],
    }
    metadata = {"name": "flowers", "namespace": "team"}
    return {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": metadata, "spec": spec | roles}


@pytest.fixture(scope="module", params=["together", pytest.param("asynchronous", marks=pytest.mark.long)])
def run(
    request: pytest.FixtureRequest, data: Path, config: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Ran:
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "job.yaml").write_text(yaml.safe_dump(manifest(data, config, GANGS[request.param])))
    command = [sys.executable, "-m", "tfdist.cli", "run", "--local", "job.yaml"]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False
    )
    return Ran(folder, done.returncode, done.stdout)


def test_a_job_trains_and_then_all_evaluate_every_example_once(run: Ran) -> None:
    assert run.code == 0, run.output
    assert run.status.phase == "Succeeded"
    assert run.status.evaluation is not None
    assert run.status.evaluation.final is not None
    assert run.status.evaluation.final.examples == 101
    assert "evaluated 101 examples of the checkpoint at step" in run.output.splitlines()[-1]
    final = run.status.evaluation.final
    written = run.state / "volumes" / "saved" / "flowers" / "evaluation" / f"{final.step}.json"
    assert json.loads(written.read_text())["metrics"] == final.metrics


@pytest.mark.parametrize("run", ["together"], indirect=True)
def test_the_evaluator_during_training_agrees_with_the_gang_after_it(run: Ran) -> None:
    evaluation = run.status.evaluation
    assert evaluation is not None
    assert evaluation.latest is not None
    assert evaluation.best is not None
    assert evaluation.final is not None
    assert (evaluation.latest.step, evaluation.latest.examples) == (evaluation.final.step, 101)
    assert evaluation.latest.metrics["accuracy"] == pytest.approx(evaluation.final.metrics["accuracy"], rel=1e-6)


def test_every_replica_has_a_log_file_and_its_name_on_the_console(run: Ran) -> None:
    assert run.status.replicas is not None
    logs = {path.stem for path in (run.state / "logs").iterdir()}
    assert logs == {f"{role}-{i}" for role, count in run.status.replicas.items() for i in range(count.desired)}
    for log in logs:
        assert f"\n{log:<12} | " in run.output
    assert not any(count.failed or count.running for count in run.status.replicas.values())
