"""Without Kubernetes: a file instead of a pod's environment, and scripts that report their progress."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.ports import free_ports

from tfdist.contract import JOB_ENV, REPORT_PORT_ENV, ExitCode, ReplicaJob
from tfdist.contract_reports import ProgressReport, TerminationMessage
from tfdist_trainer import local
from tfdist_trainer.environment import read_member
from tfdist_trainer.errors import ConfigurationError, UsageError

TRAINING: dict[str, Any] = {"program": "image_classification", "config": {"epochs": 2}}


def replica_job_of(path: Path, document: Any, **environ: str) -> ReplicaJob:
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    local.prepare(path, environ)
    assert environ[REPORT_PORT_ENV] == "0"
    return ReplicaJob.model_validate_json(environ[JOB_ENV])


def manifest(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tfdist.dev/v1",
        "kind": "TFDistJob",
        "metadata": {"name": "flowers", "namespace": "team"},
        "spec": {"worker": {"replicas": 2}, "training": TRAINING} | spec,
    }


def test_parts_of_a_job_are_enough(tmp_path: Path) -> None:
    parts = {"training": TRAINING, "runtime": {"seed": 3}, "checkpoint": {"directory": "/ckpt/{name}"}}
    job = replica_job_of(tmp_path / "My job.yaml", parts)
    assert (job.name, job.strategy, job.role, job.replicas) == ("my-job", "Mirrored", "worker", {"worker": 1})
    assert job.training is not None
    assert job.training.config == {"epochs": 2}
    assert job.runtime == {"seed": 3}
    assert job.checkpoint is not None
    assert job.checkpoint.directory == "/ckpt/my-job"
    assert job.uid != replica_job_of(tmp_path / "My job.yaml", parts).uid, "each run is a job of its own"


def test_a_whole_job_with_a_cluster_is_the_replica_that_the_cluster_names(tmp_path: Path) -> None:
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
    config = json.dumps({"cluster": cluster, "task": {"type": "ps", "index": 0}})
    spec = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}}
    job = replica_job_of(tmp_path / "job.yaml", manifest(**spec), TF_CONFIG=config)
    assert (job.name, job.namespace, job.strategy, job.role) == ("flowers", "team", "ParameterServer", "ps")
    assert job.replicas == {"chief": 1, "worker": 2, "ps": 1}


def test_the_processes_of_a_local_gang_are_of_one_job_and_those_of_another_gang_of_another(tmp_path: Path) -> None:
    def uid(index: int, port: int) -> str:
        cluster = {"worker": ["127.0.0.1:1", f"127.0.0.1:{port}"]}
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        return replica_job_of(tmp_path / "job.yaml", manifest(), TF_CONFIG=config).uid

    assert uid(0, 2) == uid(1, 2), "or they never meet"
    assert uid(0, 2) != uid(0, 3)


def test_the_processes_of_a_local_gang_agree_on_the_file_that_ends_its_servers(tmp_path: Path) -> None:
    from tfdist_trainer.strategies.servers import shutdown_marker  # noqa: PLC0415  it imports TensorFlow

    cluster = {"chief": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], "ps": ["127.0.0.1:3"]}
    spec = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}}
    paths = set()
    for role in cluster:
        config = json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}})
        job = replica_job_of(tmp_path / "job.yaml", manifest(**spec), TF_CONFIG=config)
        member = read_member({JOB_ENV: job.to_json(), "TF_CONFIG": config})
        paths.add(shutdown_marker(member, "ps", 0))
    assert len(paths) == 1


def test_a_whole_job_alone_uses_the_devices_of_this_machine(tmp_path: Path) -> None:
    assert (
        replica_job_of(tmp_path / "job.yaml", manifest(strategy="OneDevice", worker={"replicas": 1})).strategy
        == "OneDevice"
    )
    job = replica_job_of(tmp_path / "job.yaml", manifest())
    assert (job.strategy, job.replicas) == ("Mirrored", {"worker": 1})
    assert (
        replica_job_of(tmp_path / "job.yaml", manifest(task="Evaluate", checkpoint={"directory": "/c"})).role
        == "evaluation"
    )


@pytest.mark.parametrize(
    ("document", "kind", "message"),
    [
        ("a: [", UsageError, "job.yaml is not YAML"),
        ("just words", UsageError, "holds no job"),
        ({"trainig": TRAINING}, ConfigurationError, "trainig: not a field of a local run, which has strategy, task"),
        ({"training": {"programm": "x"}}, ConfigurationError, "training.program"),
        ({"training": {"script": "team.train"}}, ConfigurationError, "training.script: this command runs programs"),
        ({"training": TRAINING, "runtime": {"xla": 1}}, ConfigurationError, "runtime.xla"),
        (manifest(runtime={"xla": 1}), ConfigurationError, "spec.runtime.xla"),
        ({"training": TRAINING, "checkpoint": {"directory": "ckpt"}}, ConfigurationError, "checkpoint.directory"),
    ],
)
def test_a_wrong_file_is_reported_with_the_error(
    document: Any, kind: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(kind, match=message):
        replica_job_of(tmp_path / "job.yaml", document)


def run(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    base = {k: v for k, v in os.environ.items() if not k.startswith("TF")}
    base |= {
        "TFDIST_TERMINATION_LOG": str(folder / "termination"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=base | environ, capture_output=True, text=True, check=False, cwd=folder)


def test_a_file_that_is_not_there_is_a_wrong_usage(tmp_path: Path) -> None:
    done = run("-m", "tfdist_trainer", "--config", "absent.yaml", folder=tmp_path)
    assert done.returncode == ExitCode.USAGE
    assert "cannot read absent.yaml: No such file or directory" in done.stderr


@pytest.mark.trainer
def test_a_file_trains_a_class_of_the_folder_it_is_run_in(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM)
    document = {
        "training": {"program": "mine:Line", "config": {"steps": 40, "globalBatchSize": 8}},
        "checkpoint": {"directory": f"{tmp_path}/{{name}}", "everySteps": 20},
        "tensorBoard": {"logDirectory": f"{tmp_path}/logs/{{name}}"},
    }
    (tmp_path / "line.yaml").write_text(yaml.safe_dump(document))
    done = run("-m", "tfdist_trainer", "--config", "line.yaml", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name for path in (tmp_path / "line").glob("checkpoint-*"))
    assert names == ["checkpoint-000000020", "checkpoint-000000040"]
    assert len(list((tmp_path / "logs" / "line").glob("*/events.*"))) == 2, "of the chief, and of worker 0"


PROGRAM = """
import keras
import tensorflow as tf
import tfdist_trainer

class Line(tfdist_trainer.Program):
    def model(self):
        return keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])

    def dataset(self, split, shard):
        x = tf.reshape(tf.linspace(-1.0, 1.0, 64), [64, 1])
        return tf.data.Dataset.from_tensor_slices((x, 3.0 * x)).shard(shard.count, shard.index)

    def loss(self, labels, predictions):
        return tf.reduce_sum((labels - predictions) ** 2, axis=-1)
"""

SCRIPT = """
import json, os, sys, urllib.request
import numpy as np
import tfdist_trainer
{imports}
model = keras.Sequential([keras.layers.Input([1]), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.linspace(-1, 1, 64)[:, None]
model.fit(x, 3 * x, batch_size=8, epochs=3, verbose=0, callbacks={callbacks})
url = f"http://127.0.0.1:{{os.environ['TFDIST_REPORT_PORT']}}/v1/progress"
print(urllib.request.urlopen(url).read().decode())
{end}
"""

SCRIPT_JOB = json.dumps(
    {"name": "job", "namespace": "default", "uid": "1", "strategy": "OneDevice"}
    | {"role": "worker", "index": 0, "replicas": {"worker": 1}}
)


@pytest.mark.trainer
@pytest.mark.parametrize(
    ("imports", "callbacks", "legacy"),
    [
        pytest.param("import keras", "None", "0", id="Keras 3 by itself"),
        pytest.param(
            "import tensorflow as tf; keras = tf.keras",
            "[tfdist_trainer.keras.Progress()]",
            "1",
            id="tf_keras",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_script_with_keras_fit_reports_its_progress(
    imports: str, callbacks: str, legacy: str, tmp_path: Path
) -> None:
    text = SCRIPT.format(imports=imports, callbacks=callbacks, end="raise ValueError('no luck')")
    (tmp_path / "train.py").write_text(text)
    [port] = free_ports(1)
    environ = {"TFDIST_REPORT_PORT": str(port), "TFDIST_JOB": SCRIPT_JOB, "TF_USE_LEGACY_KERAS": legacy}
    done = run("train.py", folder=tmp_path, **environ)
    assert done.returncode == 1
    report = ProgressReport.model_validate_json(done.stdout.splitlines()[-1])
    assert (report.step, report.total_steps, report.epoch, report.phase) == (24, 24, 3, "finished")
    assert report.metrics["loss"] > 0
    words = TerminationMessage.model_validate_json((tmp_path / "termination").read_bytes())
    assert (words.reason, words.message, words.step) == ("Bug", "ValueError: no luck", 24)
    assert words.metrics == report.metrics


def test_a_report_is_light_and_needs_no_job(tmp_path: Path) -> None:
    text = """
import sys, tfdist_trainer
tfdist_trainer.report(step=1, metrics={"loss": 2})
tfdist_trainer.report(step=3, total_steps=10, metrics={"loss": 1})
assert not {"tensorflow", "keras", "numpy"} & set(sys.modules)
from tfdist_trainer.script import current_report
report = current_report()
assert (report.step, report.total_steps, report.metrics, report.phase) == (3, 10, {"loss": 1.0}, "training"), report
assert report.step_time_millis >= 0
tfdist_trainer.report(step=-1, total_steps=float("inf"), examples="many", metrics={"loss": [1], "f1": None})
report = current_report()
assert (report.step, report.total_steps, report.examples, report.metrics) == (3, 10, None, {}), report
"""
    (tmp_path / "train.py").write_text(text)
    done = run("train.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "termination").exists()


@pytest.mark.trainer
def test_the_example_of_model_parallelism_trains_on_two_devices(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "examples" / "model_parallel"
    environ = {"TFDIST_LOGICAL_CPUS": "2", "TFDIST_TERMINATION_LOG": str(tmp_path / "termination")}
    done = run("-m", "tfdist_trainer", "--config", "job.yaml", folder=folder, **environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "devices CPU=2" in done.stdout
