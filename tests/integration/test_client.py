"""The client, as a user with the role `edit` in one namespace, with a real API server and controller."""

import pathlib
import threading
from typing import Any

import pytest
from support import client_user
from support.api import Api, Json
from support.factories import manifest

from tfdist import Client
from tfdist.api.status import JobPhase
from tfdist.client.errors import AlreadyExists, Forbidden, Invalid, JobFailed, NoCluster, NotFound, Unauthorized

pytestmark = pytest.mark.integration


@pytest.fixture
def kubeconfig(api: Api, namespace: str, tmp_path: pathlib.Path) -> pathlib.Path:
    return client_user.kubeconfig(api, namespace, tmp_path)


@pytest.fixture
def client(kubeconfig: pathlib.Path) -> Client:
    return Client(kubeconfig=kubeconfig)


def new_manifest(name: str = "fashion", **spec: Any) -> Json:
    """Return a manifest as users write it, without a namespace."""
    made = manifest(name, **spec)
    del made["metadata"]["uid"], made["metadata"]["namespace"]
    return made


def test_a_job_is_submitted_to_the_namespace_of_the_context_and_listed(client: Client, namespace: str) -> None:
    handle = client.submit(new_manifest())

    assert (handle.name, handle.namespace) == ("fashion", namespace)
    assert [job.name for job in client.list()] == ["fashion"]
    assert handle.refresh().phase is JobPhase.PENDING


def test_a_dry_run_checks_a_job_and_does_not_store_it(client: Client) -> None:
    client.submit(new_manifest(), dry_run=True)

    assert client.list() == []
    with pytest.raises(Invalid, match=r"spec\.worker\.replicas"):
        client.submit(new_manifest(worker={"replicas": -1}), dry_run=True)


def test_a_second_job_of_the_same_name_is_rejected(client: Client) -> None:
    client.submit(new_manifest())

    with pytest.raises(AlreadyExists, match='"fashion" already exists'):
        client.submit(new_manifest())


@pytest.mark.usefixtures("controller")
def test_a_job_is_suspended_scaled_resumed_and_restarted(client: Client) -> None:
    handle = client.submit(new_manifest())

    handle.suspend()
    assert handle.wait_for([JobPhase.SUSPENDED], timeout=60).phase is JobPhase.SUSPENDED
    assert handle.scale(3).spec["worker"]["replicas"] == 3
    handle.resume()
    assert handle.wait_for([JobPhase.STARTING, JobPhase.RUNNING], timeout=60).spec["runPolicy"]["suspend"] is False
    assert "tfdist.dev/restartedAt" in handle.restart().manifest["metadata"]["annotations"]


@pytest.mark.usefixtures("controller")
def test_a_wait_ends_with_the_message_of_a_job_that_is_invalid(client: Client) -> None:
    handle = client.submit(new_manifest(training={"program": "image_classification", "config": {"unknown": 1}}))

    with pytest.raises(JobFailed, match=r"fashion invalid: .*training\.config\.unknown"):
        handle.wait(timeout=60)


@pytest.mark.usefixtures("controller")
def test_a_wait_sees_a_phase_that_comes_later(client: Client) -> None:
    handle = client.submit(new_manifest(runPolicy={"suspend": True}))
    ended: list[JobPhase] = []
    waiting = threading.Thread(target=lambda: ended.append(handle.wait_for([JobPhase.SUSPENDED], timeout=60).phase))

    waiting.start()
    waiting.join(60)

    assert ended == [JobPhase.SUSPENDED]


def test_the_handle_of_a_deleted_job_is_not_that_of_its_successor(client: Client) -> None:
    first = client.submit(new_manifest())
    first.delete()
    client.submit(new_manifest())

    with pytest.raises(NotFound, match="was deleted; another one has its name"):
        first.refresh()


def test_a_missing_job_is_named(client: Client) -> None:
    with pytest.raises(NotFound, match='"nothing" not found'):
        client.get("nothing")


def test_a_missing_right_is_named(client: Client) -> None:
    with pytest.raises(Forbidden, match=r"cannot list resource \"tfdistjobs\".* in the namespace \"default\""):
        client.in_namespace("default").list()


def test_expired_credentials_are_named(kubeconfig: pathlib.Path) -> None:
    kubeconfig.write_text(kubeconfig.read_text().replace("token: ", "token: wrong"))

    with pytest.raises(Unauthorized, match=r'context "team".*log in to the cluster again'):
        Client(kubeconfig=kubeconfig).list()


def test_a_context_that_does_not_exist_is_named_with_those_that_do(kubeconfig: pathlib.Path) -> None:
    with pytest.raises(NoCluster, match=r'no context "staging" in .*; it has team'):
        Client(kubeconfig=kubeconfig, context="staging")
