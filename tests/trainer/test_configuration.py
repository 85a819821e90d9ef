"""Errors in a job, with real processes: exit code, field path, remedy, and no import of TensorFlow."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tfdist.contract import ExitCode
from tfdist.contract_reports import TerminationMessage
from tfdist_trainer.data.files import Split
from tfdist_trainer.programs.config import OpenConfig, batch_size, files, parse_config, rate_scale

DATA = {"train": "{folder}/*.npz"}
JOB: dict[str, Any] = {
    "name": "test",
    "namespace": "default",
    "uid": "uid-1",
    "strategy": "OneDevice",
    "role": "worker",
    "index": 0,
    "replicas": {"worker": 1},
}


def training(**config: Any) -> dict[str, Any]:
    return JOB | {"training": {"program": "image_classification", "config": config}}


CASES: dict[str, tuple[Any, ExitCode, str]] = {
    "no job": (None, ExitCode.USAGE, "TFDIST_JOB is not set"),
    "a job that is no JSON": ("{", ExitCode.USAGE, "TFDIST_JOB: its JSON"),
    "a job without a name": ({k: v for k, v in JOB.items() if k != "name"}, ExitCode.USAGE, "TFDIST_JOB: name"),
    "no training": (JOB, ExitCode.CONFIGURATION, "training: is absent"),
    "an unknown program": (
        JOB | {"training": {"program": "image_clasification"}},
        ExitCode.CONFIGURATION,
        "training.program: 'image_clasification' is not a program of this image; known are image_classification",
    ),
    "no data": (training(), ExitCode.CONFIGURATION, "training.config.data: Required value"),
    "no training data": (
        training(data={"eval": "x"}),
        ExitCode.CONFIGURATION,
        "training.config.data.train: required, and absent",
    ),
    "no data for the evaluation after training": (
        training(data=DATA | {"eval": "{folder}/eval-*.npz"}) | {"evaluation": {"mode": "AfterTraining"}},
        ExitCode.DATA_MISSING,
        "training.config.data.eval: no file matches '{folder}/eval-*.npz'",
    ),
    "a misspelled field": (
        training(data=DATA, learninRate=1),
        ExitCode.CONFIGURATION,
        "training.config.learninRate: unknown field; did you mean learningRate?",
    ),
    "a misspelled field of data": (
        training(data=DATA | {"tets": "x"}),
        ExitCode.CONFIGURATION,
        "training.config.data.tets: unknown field",
    ),
    "a wrong item": (
        training(data=DATA, imageShape=[28, 0, 1]),
        ExitCode.CONFIGURATION,
        "training.config.imageShape[1]: Invalid value: 0: must be at least 1",
    ),
    "a wrong number": (
        training(data=DATA, learningRate="fast"),
        ExitCode.CONFIGURATION,
        'training.config.learningRate: Invalid value: "fast": must be a number',
    ),
    "two batch sizes": (
        training(data=DATA, globalBatchSize=8, batchSizePerReplica=8),
        ExitCode.CONFIGURATION,
        "training.config.batchSizePerReplica: globalBatchSize and batchSizePerReplica are mutually exclusive",
    ),
    "a checkpoint directory in a store that is not supported": (
        training(data=DATA) | {"checkpoint": {"directory": "hdfs://host/x"}},
        ExitCode.CONFIGURATION,
        "checkpoint.directory: 'hdfs://host/x' is neither an absolute path nor s3://bucket/key or gs://bucket/key",
    ),
    "an evaluation without checkpoints": (
        training(data={"eval": "{folder}/*.npz"}) | {"task": "Evaluate"},
        ExitCode.CONFIGURATION,
        "checkpoint: is absent",
    ),
    "files that are not there": (
        training(data={"train": "{folder}/train-*.tfrecord"}),
        ExitCode.DATA_MISSING,
        "training.config.data.train: no file matches '{folder}/train-*.tfrecord'",
    ),
    "a gang without TF_CONFIG": (
        training(data=DATA) | {"strategy": "MultiWorkerMirrored", "replicas": {"worker": 2}},
        ExitCode.CONFIGURATION,
        "TF_CONFIG is absent",
    ),
}


def run(folder: Path, job: Any, *arguments: str, **variables: str) -> tuple[int, str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("TF")} | {
        "TFDIST_REPORT_PORT": "0",
        "TFDIST_TERMINATION_LOG": str(folder / "termination"),
    }
    if job is not None:
        text = job if isinstance(job, str) else json.dumps(job)
        environ["TFDIST_JOB"] = text.replace("{folder}", str(folder))
    command = [sys.executable, "-X", "importtime", "-m", "tfdist_trainer", *arguments]
    done = subprocess.run(command, env=environ | variables, capture_output=True, text=True, timeout=60, check=False)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "import time:" in line}
    assert not imported & {"tensorflow", "keras", "numpy"}, "an error must be reported without these imports"
    return done.returncode, "\n".join(x for x in done.stderr.splitlines() if "import time:" not in x)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_error_in_a_job_is_reported_with_its_field(case: tuple[Any, ExitCode, str], tmp_path: Path) -> None:
    (tmp_path / "some.npz").write_bytes(b"")
    job, code, text = case
    text = text.replace("{folder}", str(tmp_path))
    returned, error = run(tmp_path, job)
    assert returned == code
    assert error.startswith(f"tfdist-train: {text}")
    assert "\n" not in error, "one line is enough"
    assert TerminationMessage.model_validate_json((tmp_path / "termination").read_bytes()).message.startswith(text)


def test_unknown_arguments_are_a_wrong_usage(tmp_path: Path) -> None:
    code, error = run(tmp_path, JOB, "--wrong")
    assert code == ExitCode.USAGE
    assert "unknown argument '--wrong'" in error


@pytest.mark.parametrize("port", ["http", "-1", "65536"])
def test_a_report_port_that_is_none_is_a_wrong_usage(port: str, tmp_path: Path) -> None:
    code, error = run(tmp_path, JOB, TFDIST_REPORT_PORT=port)
    assert code == ExitCode.USAGE
    assert "TFDIST_REPORT_PORT" in error


def test_a_field_of_a_program_is_not_hidden_by_a_method_of_the_same_name() -> None:
    fields = {"files": "mine", "copy": 1, "json": [2], "dict": None, "learningRate": 0.5, "referenceBatchSize": 4}
    found: Any = parse_config(OpenConfig, fields)
    assert [found.files, found.copy, found.json, found.dict] == ["mine", 1, [2], None]
    assert (found.learning_rate, found.epochs, found.model_copy().files) == (0.5, 1, "mine")
    assert (files(found, Split.TRAIN), batch_size(found, 2), rate_scale(found, 8)) == ((), 128, 2.0)
