"""The commands that show and control jobs, as a user with the role `edit`, with a real API server and controller."""

import json
import pathlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from support import client_user, kubelet
from support.api import JOBS, PODS, Api, Json
from support.factories import manifest
from support.polling import wait_for

from tfdist import Client
from tfdist.cli.main import main
from tfdist.client.errors import NotFound

pytestmark = pytest.mark.integration

Run = Callable[..., int]


@pytest.fixture
def kubeconfig(api: Api, namespace: str, tmp_path: pathlib.Path) -> pathlib.Path:
    return client_user.kubeconfig(api, namespace, tmp_path)


@pytest.fixture
def client(kubeconfig: pathlib.Path) -> Client:
    return Client(kubeconfig=kubeconfig)


@pytest.fixture
def run(kubeconfig: pathlib.Path) -> Run:
    """Run the command with arguments as the user, and return its exit code."""

    def command(*arguments: str) -> int:
        return main([*arguments, "--kubeconfig", str(kubeconfig)])

    return command


@pytest.fixture
def submit(client: Client) -> Callable[..., None]:
    def create(name: str = "fashion", labels: Json | None = None, **spec: Any) -> None:
        made = manifest(name, **spec)
        del made["metadata"]["uid"], made["metadata"]["namespace"]
        made["metadata"]["labels"] = labels or {}
        client.submit(made)

    return create


def play(api: Api, namespace: str, word: str = "R") -> None:
    """Give each pod of the namespace that still waits the status of a kubelet."""
    for pod in api.pods(namespace):
        if pod["status"]["phase"] == "Pending" and not pod["metadata"].get("deletionTimestamp"):
            kubelet.play(api, f"{PODS.format(ns=namespace)}/{pod['metadata']['name']}", word)


class Kubelet(threading.Thread):
    """Starts each new pod of a namespace, and removes those that are being deleted, until it is stopped."""

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__(daemon=True)
        self._api, self._namespace, self._stopped = api, namespace, threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(0.2):
            play(self._api, self._namespace)
            for pod in self._api.pods(self._namespace):
                if pod["metadata"].get("deletionTimestamp"):
                    path = f"{PODS.format(ns=self._namespace)}/{pod['metadata']['name']}"
                    self._api.send("DELETE", path, {"gracePeriodSeconds": 0})

    def stop(self) -> None:
        self._stopped.set()
        self.join()


@pytest.fixture
def running_pods(api: Api, namespace: str) -> Iterator[Kubelet]:
    thread = Kubelet(api, namespace)
    thread.start()
    yield thread
    thread.stop()


def test_a_list_has_the_selected_jobs_by_name(
    run: Run, submit: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    submit("b", labels={"team": "vision"})
    submit("a", labels={"team": "vision"})
    submit("c")

    assert run("list", "-l", "team=vision") == 0
    headings, *rows = capsys.readouterr().out.splitlines()
    assert headings.split() == ["NAME", "PHASE", "READY", "PROGRESS", "ETA", "METRIC", "RESTARTS", "AGE"]
    assert [row.split()[:2] for row in rows] == [["a", "Pending"], ["b", "Pending"]]
    assert run("list", "-o", "name", "-l", "team!=vision") == 0
    assert capsys.readouterr().out == "tfdistjob.tfdist.dev/c\n"
    assert run("list", "-o", "json") == 0
    assert [item["metadata"]["name"] for item in json.loads(capsys.readouterr().out)["items"]] == ["a", "b", "c"]


def test_a_namespace_without_jobs_is_named_on_standard_error(
    run: Run, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("list") == 0
    assert capsys.readouterr() == ("", f"No jobs found in {namespace} namespace.\n")


def test_the_jobs_of_all_namespaces_need_a_right_that_is_named(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "-A") == 2
    assert "at the cluster scope" in capsys.readouterr().err


def test_a_selector_that_cannot_be_parsed_is_one_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "-l", "a in (") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "unable to parse" in err


def test_a_job_is_printed_as_it_is_stored(
    run: Run, submit: Callable[..., None], api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit()

    assert run("get", "fashion", "-o", "yaml") == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    stored = api.job(namespace, "fashion")
    del stored["metadata"]["managedFields"]
    assert shown == stored
    assert run("get", "fashion", "-o", "name") == 0
    assert capsys.readouterr().out == "tfdistjob.tfdist.dev/fashion\n"


@pytest.mark.parametrize("command", ["get", "describe", "events", "suspend", "restart", "delete", "wait"])
def test_a_job_that_does_not_exist_is_named_with_a_similar_one(
    command: str, run: Run, submit: Callable[..., None], namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit()

    assert run(command, "fashoin") == 2
    expected = f'job "fashoin" not found in namespace "{namespace}"; did you mean "fashion"?\n'
    assert capsys.readouterr() == ("", expected)


@pytest.mark.usefixtures("controller")
def test_a_description_has_the_last_failure_its_remedy_and_the_events_of_job_and_pods(
    run: Run, submit: Callable[..., None], api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit(worker={"replicas": 1}, runPolicy={"backoffLimit": 0})
    wait_for("the pod", lambda: api.pods(namespace))
    play(api, namespace)
    api.end_container(namespace, "fashion-worker-0", 64, "usage: train.py DATA")
    client_wait = run("wait", "fashion", "--timeout", "240s")
    pod_event(api, namespace, "fashion-worker-0")
    wait_for("the event of the failure", lambda: "Failed" in [e["reason"] for e in events(api, namespace)])
    capsys.readouterr()

    assert run("describe", "fashion") == 0
    text = capsys.readouterr().out
    assert client_wait == 64
    assert "Phase:           Failed" in text
    assert "  Exit Code:     64" in text
    assert "  Remedy:        correct the field, file or argument in the message and create the job again" in text
    assert "pod/fashion-worker-0" in text.partition("Events:")[2]
    assert "  Warning  Failed " in text.partition("Events:")[2]
    assert run("events", "fashion") == 0
    assert "BackOff" in capsys.readouterr().out


def events(api: Api, namespace: str) -> list[Json]:
    """Return the events of a namespace."""
    found: list[Json] = api.do("GET", f"/api/v1/namespaces/{namespace}/events")["items"]
    return found


def pod_event(api: Api, namespace: str, pod: str) -> None:
    """Report an event of a pod, as a kubelet would."""
    times = {"firstTimestamp": "2100-01-01T00:00:00Z", "lastTimestamp": "2100-01-01T00:00:00Z", "count": 2}
    about = {"kind": "Pod", "namespace": namespace, "name": pod}
    body = {"metadata": {"name": f"{pod}.1"}, "involvedObject": about, "reason": "BackOff", "type": "Warning"} | times
    api.do("POST", f"/api/v1/namespaces/{namespace}/events", body)


def test_events_of_other_jobs_and_of_an_earlier_job_of_the_name_are_not_shown(
    run: Run, submit: Callable[..., None], api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit("fashion")
    pod_event(api, namespace, "fashion-2-worker-0")
    about = {"kind": "TFDistJob", "namespace": namespace, "name": "fashion", "uid": "of-an-earlier-one"}
    body = {"metadata": {"name": "old"}, "involvedObject": about, "reason": "Failed", "type": "Warning"}
    api.do("POST", f"/api/v1/namespaces/{namespace}/events", body)

    assert run("events", "fashion") == 0
    assert capsys.readouterr() == ("", 'No events found of job "fashion".\n')


def test_followed_events_are_each_printed_once_also_those_that_come_later(
    client: Client, submit: Callable[..., None], api: Api, namespace: str
) -> None:
    submit("fashion")
    pod_event(api, namespace, "fashion-worker-0")

    following = client.follow_events("fashion")
    first = next(following)
    pod_event(api, namespace, "fashion-worker-1-r12")
    second = next(following)

    assert (first.object, first.count) == ("pod/fashion-worker-0", 2)
    assert second.object == "pod/fashion-worker-1-r12"


@pytest.mark.usefixtures("controller", "running_pods")
def test_a_job_is_suspended_scaled_resumed_restarted_and_deleted(
    run: Run, submit: Callable[..., None], client: Client, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit()
    assert run("wait", "fashion", "--for", "running", "--timeout", "240s") == 0
    capsys.readouterr()

    assert run("suspend", "fashion", "--wait", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion suspended\n"
    assert client.get("fashion").phase == "Suspended"

    assert run("scale", "fashion", "--workers", "3") == 0
    assert capsys.readouterr() == ("tfdistjob/fashion scaled\n", "next: tfdist resume fashion\n")

    assert run("resume", "tfdistjob/fashion", "--wait", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion resumed\n"
    assert [pod["metadata"]["name"] for pod in api.pods(namespace) if "worker-2" in pod["metadata"]["name"]]

    before = client.get("fashion").status.attempt
    assert run("restart", "fashion", "--wait", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion restarted\n"
    after = client.get("fashion")
    assert (after.phase, after.status.attempt) == ("Running", (before or 0) + 1)

    assert run("delete", "fashion", "--timeout", "240s") == 0
    assert capsys.readouterr().out == "tfdistjob/fashion deleted\n"
    assert api.pods(namespace) == []
    with pytest.raises(NotFound):
        client.get("fashion")


@pytest.mark.usefixtures("controller", "running_pods")
def test_the_workers_of_a_running_job_cannot_be_changed_and_the_error_has_the_steps(
    run: Run, submit: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    submit()
    assert run("wait", "fashion", "--for", "running", "--timeout", "240s") == 0
    capsys.readouterr()

    assert run("scale", "fashion", "--workers", "3") == 2
    assert capsys.readouterr() == (
        "",
        'job "fashion" is running: suspend it first (tfdist suspend fashion --wait), scale it, and resume it\n',
    )


def test_with_several_names_the_others_are_changed_after_an_error(
    run: Run, submit: Callable[..., None], client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    submit("first")
    submit("third")

    assert run("suspend", "first", "missing", "third") == 2
    out, err = capsys.readouterr()
    assert out == "tfdistjob/first suspended\ntfdistjob/third suspended\n"
    assert err.startswith('job "missing" not found')
    assert client.get("third").is_suspended


@pytest.mark.parametrize("command", ["suspend", "resume", "restart"])
def test_a_finished_job_is_not_changed(
    command: str, run: Run, submit: Callable[..., None], api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    submit()
    path = f"{JOBS.format(ns=namespace)}/fashion"
    api.do("PATCH", f"{path}/status", {"status": {"phase": "Succeeded", "observedGeneration": 1}}, "merge-patch")
    before = api.job(namespace, "fashion")

    assert run(command, "fashion") == 2
    assert "it has finished (Succeeded)" in capsys.readouterr().err
    assert api.job(namespace, "fashion") == before


def test_a_suspended_job_is_not_restarted_but_resumed(
    run: Run, submit: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    submit(runPolicy={"suspend": True})

    assert run("restart", "fashion") == 2
    assert 'job "fashion" is suspended: resume it instead' in capsys.readouterr().err


def test_a_wait_that_is_too_short_ends_with_124(
    run: Run, submit: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    submit()  # no controller runs

    assert run("suspend", "fashion", "--wait", "--timeout", "1s") == 124
    assert "is Pending after" in capsys.readouterr().err


def test_a_deletion_does_not_wait_for_pods_with_no_wait(
    run: Run, submit: Callable[..., None], client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    submit()

    assert run("delete", "fashion", "--no-wait") == 0
    assert capsys.readouterr() == ("tfdistjob/fashion deleted\n", "")
    assert client.list() == []


def test_a_timeout_without_a_wait_changes_nothing(
    run: Run, submit: Callable[..., None], client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    submit()

    assert run("suspend", "fashion", "--timeout", "1s") == 2
    assert "give --wait as well" in capsys.readouterr().err
    assert not client.get("fashion").is_suspended


def test_a_user_with_the_role_view_reads_jobs_and_changes_none(
    run: Run, submit: Callable[..., None], api: Api, namespace: str, tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    submit()
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings/{client_user.NAME}"
    api.do("DELETE", rbac)
    client_user.kubeconfig(api, namespace, tmp_path, role="view")

    assert run("describe", "fashion") == 0
    assert run("suspend", "fashion") == 2
    err = capsys.readouterr().err
    assert "cannot patch resource" in err
    assert err.count("\n") == 1
