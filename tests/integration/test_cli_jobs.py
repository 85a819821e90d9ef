"""The commands that show jobs, as a user with the role `edit`, with a real API server and controller."""

import json

import pytest
import yaml
from support.api import Api, Json
from support.command_user import CommandUser, start_pods
from support.polling import wait_for

pytestmark = pytest.mark.integration


def test_a_list_has_the_selected_jobs_by_name(user: CommandUser, capsys: pytest.CaptureFixture[str]) -> None:
    user.submit("b", labels={"team": "vision"})
    user.submit("a", labels={"team": "vision"})
    user.submit("c")

    assert user.run("list", "-l", "team=vision") == 0
    headings, *rows = capsys.readouterr().out.splitlines()
    assert headings.split() == ["NAME", "PHASE", "READY", "PROGRESS", "ETA", "METRIC", "RESTARTS", "AGE"]
    assert [row.split()[:2] for row in rows] == [["a", "Pending"], ["b", "Pending"]]
    assert user.run("list", "-o", "name", "-l", "team!=vision") == 0
    assert capsys.readouterr().out == "tfdistjob.tfdist.dev/c\n"
    assert user.run("list", "-o", "json") == 0
    assert [item["metadata"]["name"] for item in json.loads(capsys.readouterr().out)["items"]] == ["a", "b", "c"]


def test_a_namespace_without_jobs_is_named_on_standard_error(
    user: CommandUser, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run("list") == 0
    assert capsys.readouterr() == ("", f"No jobs found in {namespace} namespace.\n")


def test_the_jobs_of_all_namespaces_need_a_right_that_is_named(
    user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    assert user.run("list", "-A") == 2
    assert "at the cluster scope" in capsys.readouterr().err


def test_a_selector_that_cannot_be_parsed_is_one_line(user: CommandUser, capsys: pytest.CaptureFixture[str]) -> None:
    assert user.run("list", "-l", "a in (") == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "unable to parse" in err


def test_a_job_is_printed_as_it_is_stored(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit()

    assert user.run("get", "fashion", "-o", "yaml") == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    stored = api.job(namespace, "fashion")
    del stored["metadata"]["managedFields"]
    assert shown == stored
    assert user.run("get", "fashion", "-o", "name") == 0
    assert capsys.readouterr().out == "tfdistjob.tfdist.dev/fashion\n"


@pytest.mark.parametrize("command", ["get", "describe", "events", "suspend", "restart", "delete", "wait"])
def test_a_job_that_does_not_exist_is_named_with_a_similar_one(
    command: str, user: CommandUser, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit()

    assert user.run(command, "fashoin") == 2
    expected = f'job "fashoin" not found in namespace "{namespace}"; did you mean "fashion"?\n'
    assert capsys.readouterr() == ("", expected)


@pytest.mark.usefixtures("controller")
def test_a_description_has_the_last_failure_its_remedy_and_the_events_of_job_and_pods(
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit(worker={"replicas": 1}, runPolicy={"backoffLimit": 0})
    wait_for("the pod", lambda: api.pods(namespace))
    start_pods(api, namespace)
    api.end_container(namespace, "fashion-worker-0", 64, "usage: train.py DATA")
    client_wait = user.run("wait", "fashion", "--timeout", "240s")
    pod_event(api, namespace, "fashion-worker-0")
    wait_for("the event of the failure", lambda: "Failed" in [e["reason"] for e in events(api, namespace)])
    capsys.readouterr()

    assert user.run("describe", "fashion") == 0
    text = capsys.readouterr().out
    assert client_wait == 64
    assert "Phase:           Failed" in text
    assert "  Exit Code:     64" in text
    assert "  Remedy:        correct the field, file or argument in the message and create the job again" in text
    assert "pod/fashion-worker-0" in text.partition("Events:")[2]
    assert "  Warning  Failed " in text.partition("Events:")[2]
    assert user.run("events", "fashion") == 0
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
    user: CommandUser, api: Api, namespace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    user.submit("fashion")
    pod_event(api, namespace, "fashion-2-worker-0")
    about = {"kind": "TFDistJob", "namespace": namespace, "name": "fashion", "uid": "of-an-earlier-one"}
    body = {"metadata": {"name": "old"}, "involvedObject": about, "reason": "Failed", "type": "Warning"}
    api.do("POST", f"/api/v1/namespaces/{namespace}/events", body)

    assert user.run("events", "fashion") == 0
    assert capsys.readouterr() == ("", 'No events found of job "fashion".\n')


def test_followed_events_are_each_printed_once_also_those_that_come_later(
    user: CommandUser, api: Api, namespace: str
) -> None:
    user.submit("fashion")
    pod_event(api, namespace, "fashion-worker-0")

    following = user.client.attach("fashion").follow_events()
    first = next(following)
    pod_event(api, namespace, "fashion-worker-1-r12")
    second = next(following)

    assert (first.object, first.count) == ("pod/fashion-worker-0", 2)
    assert second.object == "pod/fashion-worker-1-r12"
