"""The commands that control jobs, as a user with the role `edit`, with a real API server and controller."""

import pathlib
from collections.abc import Iterator

import pytest
from support import client_user
from support.api import JOBS, Api
from support.command_user import CommandUser, running_pods

from tfdist.client.errors import NotFound

pytestmark = pytest.mark.integration


@pytest.fixture
def started_pods(api: Api, namespace: str) -> Iterator[None]:
    with running_pods(api, namespace):
        yield


@pytest.mark.usefixtures("controller", "started_pods")
def test_a_job_is_suspended_scaled_resumed_restarted_and_deleted(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit()
    assert user.run("wait", "fashion", "--for", "running", "--timeout", "240s") == 0
    capsys.readouterr()

    assert user.run("suspend", "fashion", "--wait", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion suspended\n"
    assert user.client.get("fashion").phase == "Suspended"

    assert user.run("scale", "fashion", "--workers", "3") == 0
    assert capsys.readouterr() == ("tfdistjob/fashion scaled\n", "next: tfdist resume fashion\n")

    assert user.run("resume", "tfdistjob/fashion", "--wait", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion resumed\n"
    assert [pod["metadata"]["name"] for pod in api.pods(namespace) if "worker-2" in pod["metadata"]["name"]]

    before = user.client.get("fashion").status.attempt
    assert user.run("restart", "fashion", "--wait", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion restarted\n"
    after = user.client.get("fashion")
    assert (after.phase, after.status.attempt) == ("Running", (before or 0) + 1)

    assert user.run("delete", "fashion", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion deleted\n"
    assert api.pods(namespace) == []
    with pytest.raises(NotFound):
        user.client.get("fashion")


@pytest.mark.usefixtures("controller", "started_pods")
def test_the_workers_of_a_running_job_cannot_be_changed_and_the_error_has_the_steps(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit()
    assert user.run("wait", "fashion", "--for", "running", "--timeout", "240s") == 0
    capsys.readouterr()

    assert user.run("scale", "fashion", "--workers", "3") == 2
    assert capsys.readouterr() == (
        "",
        'job "fashion" is running: suspend it first (tfdist suspend fashion --wait), scale it, and resume it\n',
    )


def test_with_several_names_the_others_are_changed_after_an_error(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit("first")
    user.submit("third")

    assert user.run("suspend", "first", "missing", "third") == 2
    out, err = capsys.readouterr()
    assert out == "tfdistjob/first suspended\ntfdistjob/third suspended\n"
    assert err.startswith('job "missing" not found')
    assert user.client.get("third").is_suspended


@pytest.mark.parametrize("command", ["suspend", "resume", "restart"])
def test_a_finished_job_is_not_changed(
    command: str, user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit()
    path = f"{JOBS.format(ns=namespace)}/fashion"
    api.do("PATCH", f"{path}/status", {"status": {"phase": "Succeeded", "observedGeneration": 1}}, "merge-patch")
    before = api.job(namespace, "fashion")

    assert user.run(command, "fashion") == 2
    assert "it has finished (Succeeded)" in capsys.readouterr().err
    assert api.job(namespace, "fashion") == before


def test_a_suspended_job_is_not_restarted_but_resumed(user: CommandUser, capsys: pytest.CaptureFixture[str]) -> None:
    user.submit(runPolicy={"suspend": True})

    assert user.run("restart", "fashion") == 2
    assert 'job "fashion" is suspended: resume it instead' in capsys.readouterr().err


def test_a_wait_that_is_too_short_ends_with_124(user: CommandUser, capsys: pytest.CaptureFixture[str]) -> None:
    user.submit()  # no controller runs

    assert user.run("suspend", "fashion", "--wait", "--timeout", "1s") == 124
    assert "is Pending after" in capsys.readouterr().err


def test_a_deletion_does_not_wait_for_pods_with_no_wait(user: CommandUser, capsys: pytest.CaptureFixture[str]) -> None:
    user.submit()

    assert user.run("delete", "fashion", "--no-wait") == 0
    assert capsys.readouterr() == ("tfdistjob/fashion deleted\n", "")
    assert user.client.list() == []


def test_a_timeout_without_a_wait_changes_nothing(user: CommandUser, capsys: pytest.CaptureFixture[str]) -> None:
    user.submit()

    assert user.run("suspend", "fashion", "--timeout", "1s") == 2
    assert "give --wait as well" in capsys.readouterr().err
    assert not user.client.get("fashion").is_suspended


def test_a_user_with_the_role_view_reads_jobs_and_changes_none(
    user: CommandUser, api: Api, namespace: str, tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    user.submit()
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/{client_user.NAME}"
    api.do("DELETE", rbac)
    client_user.kubeconfig(api, namespace, tmp_path, role="view")

    assert user.run("describe", "fashion") == 0
    assert user.run("suspend", "fashion") == 2
    err = capsys.readouterr().err
    assert "cannot patch resource" in err
    assert err.count("\n") == 1


def test_expired_credentials_are_reported_once_for_several_jobs(
    user: CommandUser, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(path.read_text().replace("token: ", "token: wrong"))

    assert user.run("suspend", "a", "b", "c") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "log in to the cluster again" in err
