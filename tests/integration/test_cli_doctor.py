"""`tfdist doctor`: its checks of rights, quotas and jobs for a user of a cluster, with a real API server."""

import json
import pathlib

import pytest
from support.api import Api
from support.command_user import CommandUser
from support.polling import wait_for

pytestmark = pytest.mark.integration


@pytest.mark.usefixtures("controller")
def test_the_doctor_finds_no_problem_for_a_user_with_the_role_edit(
    user: CommandUser, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run("doctor", "-o", "json") == 0

    checks = {each["subject"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["CRD"]["result"] == "ok"
    assert checks["rights"]["message"] == f"every command is allowed in namespace {namespace}"
    assert (checks["namespace"]["result"], checks["quota"]["message"]) == ("ok", "none")
    assert {name for name, each in checks.items() if each["result"] == "unknown"} == {
        "controller", "storage", "GPUs", "DNS",
    }  # fmt: skip


def test_the_doctor_reports_to_a_user_with_the_role_view_what_is_not_allowed(
    api: Api, namespace: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    viewer = CommandUser(api, namespace, tmp_path, role="view")

    assert viewer.run("doctor") == 1

    lines = [line for line in capsys.readouterr().out.splitlines() if " rights: " in line]
    submit, *others = lines
    assert submit.startswith("problem  rights: submit, run: you may not create tfdistjobs, create configmaps, ")
    assert submit.endswith(f"; ask an administrator for the role edit in namespace {namespace}")
    assert [line.split(": ")[1] for line in others] == [
        "suspend, resume, restart, scale", "delete", "port-forward, tensorboard, stacks", "shell",
    ]  # fmt: skip
    assert all(line.startswith("warning") for line in others)


def test_the_doctor_names_a_quota_that_is_used_up(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"pods": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    api.do("POST", path, quota)
    wait_for("the quota's status", lambda: api.do("GET", f"{path}/small").get("status", {}).get("used"))

    user.run("doctor")

    assert "warning  quota: used up: pods 0 of 0; " in capsys.readouterr().out


@pytest.mark.usefixtures("controller")
def test_the_doctor_reports_the_problem_of_a_job_with_the_remedy(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit(training={"program": "image_classification", "config": {"unknown": 1}})
    assert user.run("wait", "fashion", "--timeout", "60s") == 1

    assert user.run("doctor", "fashion") == 1

    (line,) = [line for line in capsys.readouterr().out.splitlines() if "job fashion" in line]
    assert line.startswith("problem  job fashion: Invalid=True: InvalidSpec: ")
    assert "; correct the fields in the message" in line
