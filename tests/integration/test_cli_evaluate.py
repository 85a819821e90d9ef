"""`tfdist evaluate`, as a user with the role `edit`, with a real API server."""

import base64
import pathlib
import random
from typing import Any

import pytest
import yaml
from support.api import JOBS, Api, Json
from support.command_user import CommandUser
from support.factories import CHECKPOINT, RESULT
from support.scripted_sweep import SWEEPS
from support.sweeps import sweep_manifest

from tfdist.client.code_archive import pack_folder

pytestmark = pytest.mark.integration

LAST: Json = {"step": 40, "path": "/ckpt/fashion/checkpoint-000000040"}


def report(api: Api, namespace: str, **status: Any) -> None:
    """Write the status of the job as the controller does."""
    path = f"{JOBS.format(ns=namespace)}/fashion/status"
    api.do("PATCH", path, {"status": status}, "merge-patch")


def names(api: Api, namespace: str) -> list[str]:
    items = api.do("GET", JOBS.format(ns=namespace))["items"]
    return sorted(each["metadata"]["name"] for each in items)


def test_the_best_checkpoint_of_a_job_is_evaluated_by_a_new_one(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    user.submit(checkpoint=CHECKPOINT, evaluation={"mode": "Continuous", "metric": "accuracy"}, tensorBoard={})
    report(api, namespace, progress={"lastCheckpoint": LAST}, evaluation={"best": RESULT})
    # when
    code = user.run("evaluate", "tfdistjob/fashion", "--checkpoint", "best", "--name", "result", "--workers", "3")
    # then
    assert (code, *capsys.readouterr()) == (0, "tfdistjob/result created\n", "follow it: tfdist attach result\n")
    spec = api.job(namespace, "result")["spec"]
    assert (spec["task"], spec["worker"]["replicas"]) == ("Evaluate", 3)
    assert spec["checkpoint"]["directory"] == "/ckpt/fashion"
    assert spec["checkpoint"]["restore"] == RESULT["checkpoint"]
    assert spec["evaluation"]["mode"] == "None"


def test_without_a_name_each_evaluation_gets_its_own(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit(checkpoint=CHECKPOINT)
    report(api, namespace, progress={"lastCheckpoint": LAST})

    assert user.run("evaluate", "fashion") == user.run("evaluate", "fashion") == 0

    first, second = (line.split()[0].removeprefix("tfdistjob/") for line in capsys.readouterr().out.splitlines())
    assert first.startswith("fashion-evaluation-")
    assert names(api, namespace) == sorted(["fashion", first, second])


def test_code_that_was_submitted_with_a_job_goes_with_its_evaluation(
    user: CommandUser, api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    # given
    (tmp_path / "code").mkdir()
    (tmp_path / "code/model.py").write_text("x = 1")
    (tmp_path / "code/weights.bin").write_bytes(random.Random(0).randbytes(1_000_000))  # noqa: S311  two parts
    archive = pack_folder(tmp_path / "code")
    job = {"metadata": {"name": "fashion"},
           "spec": {"training": {"program": "model:Own"}, "checkpoint": CHECKPOINT}}  # fmt: skip
    user.client.submit(job, code=archive)
    report(api, namespace, progress={"lastCheckpoint": LAST})
    # when
    assert user.run("evaluate", "fashion", "--name", "result") == 0
    # then
    name = api.job(namespace, "result")["spec"]["training"]["source"]["archive"]["name"]
    stored = [api.do("GET", f"/api/v1/namespaces/{namespace}/configmaps/{part}") for part in (name, f"{name}-1")]
    assert b"".join(base64.b64decode(part["binaryData"]["code.tar.gz"]) for part in stored) == archive.content
    assert [owner["name"] for part in stored for owner in part["metadata"]["ownerReferences"]] == ["result"] * 2


@pytest.mark.parametrize("dry_run", ["client", "server"])
def test_a_dry_run_creates_nothing(
    dry_run: str, user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit(checkpoint=CHECKPOINT)
    report(api, namespace, progress={"lastCheckpoint": LAST})

    assert user.run("evaluate", "fashion", "--name", "result", "--dry-run", dry_run) == 0

    output = capsys.readouterr().out
    if dry_run == "client":
        assert yaml.safe_load(output)["spec"]["task"] == "Evaluate"
    else:
        assert output == "tfdistjob/result created (server dry run)\n"
    assert names(api, namespace) == ["fashion"]


@pytest.mark.parametrize(
    ("spec", "status", "options", "message"),
    [
        ({}, {}, [], 'job "fashion" writes no checkpoints'),
        ({"checkpoint": CHECKPOINT}, {}, [], 'job "fashion" has no checkpoint yet'),
        ({"checkpoint": CHECKPOINT, "training": {"script": "/train.py"}}, {}, [], 'job "fashion" runs a script'),
        (
            {"checkpoint": CHECKPOINT, "training": {"program": "image_classification",
                                                    "config": {"data": {"train": "/data/x"}}}},
            {"progress": {"lastCheckpoint": LAST}},
            [],
            "spec.training.config.data.eval: ",
        ),
        ({"checkpoint": CHECKPOINT}, {"progress": {"lastCheckpoint": LAST}}, ["--name", "fashion"], "already exists"),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_evaluated_is_one_line_and_creates_nothing(
    spec: Json, status: Json, options: list[str], message: str,
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    user.submit(**spec)
    report(api, namespace, **status)

    assert user.run("evaluate", "fashion", *options) == 2

    output = capsys.readouterr()
    assert output.out == ""
    (line,) = output.err.splitlines()
    assert message in line
    assert names(api, namespace) == ["fashion"]


def test_a_job_that_does_not_exist_is_reported_with_a_similar_name(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit()

    assert user.run("evaluate", "fashin") == 2

    assert capsys.readouterr().err.endswith('; did you mean "fashion"?\n')


def test_the_best_trials_of_a_sweep_are_evaluated_as_one_model(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    sweep = sweep_manifest("rates", parameters=[{"name": "seed", "field": "runtime.seed", "values": [1, 2]}])
    path = f"{SWEEPS.format(ns=namespace)}"
    api.do("POST", path, sweep | {"metadata": {"name": "rates", "namespace": namespace}})
    best = [
        {"trial": n, "job": f"rates-{n}", "parameters": {"seed": n + 1}, "value": 0.9, "step": 40,
         "checkpoint": f"/ckpt/rates-{n}/checkpoint-000000040"}
        for n in (0, 1)
    ]  # fmt: skip
    api.do("PATCH", f"{path}/rates/status", {"status": {"best": best}}, "merge-patch")
    # when
    code = user.run("evaluate", "--ensemble", "tfdistsweep/rates", "--name", "result")
    # then
    assert (code, *capsys.readouterr()) == (0, "tfdistjob/result created\n", "follow it: tfdist attach result\n")
    members = api.job(namespace, "result")["spec"]["evaluation"]["ensemble"]
    assert [member["checkpoint"] for member in members] == [trial["checkpoint"] for trial in best]


def test_an_ensemble_takes_its_checkpoints_from_the_sweep(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run("evaluate", "--ensemble", "rates", "--checkpoint", "3") == 2
    assert "an ensemble uses the checkpoints in status.best of the sweep" in capsys.readouterr().err
