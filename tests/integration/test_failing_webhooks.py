"""A cluster whose webhook for pods fails: pods of an ended attempt go, and the job reports the webhook's error."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.api import Api
from support.controller import Controller
from support.factories import manifest
from support.polling import wait_for

pytestmark = pytest.mark.integration

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
NOWHERE = "https://127.0.0.1:1/"


@contextmanager
def failing(api: Api, namespace: str, operation: str) -> Iterator[None]:
    """Have every such operation on pods of a namespace fail, as with a webhook whose server is down."""
    webhook = {
        "name": "pods.example.com",
        "clientConfig": {"url": NOWHERE},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": [operation]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    meta = {"name": f"{namespace}-{operation.lower()}"}
    api.do("POST", WEBHOOKS, {"metadata": meta, "webhooks": [webhook]})
    try:
        yield
    finally:
        api.do("DELETE", f"{WEBHOOKS}/{meta['name']}")


def new_job(api: Api, namespace: str) -> None:
    made = manifest("job", namespace, worker={"replicas": 2})
    del made["metadata"]["uid"]
    api.create_job(made)


def test_pods_of_an_ended_attempt_are_deleted_although_no_pod_can_be_updated(
    api: Api, namespace: str, controller: Controller
) -> None:
    # given a job that runs, and a webhook that fails for each update of a pod
    new_job(api, namespace)
    wait_for("the job to run", lambda: api.job(namespace, "job").get("status", {}).get("phase") == "Running")
    with failing(api, namespace, "UPDATE"):
        # when a replica fails
        api.end_container(namespace, "job-worker-1", 137)
        # then the next attempt replaces all pods, and no host name has two of them
        wait_for("the next attempt", lambda: [*living(api, namespace)] == ["job-worker-0-r1", "job-worker-1-r1"])
    assert controller.ready()


def test_a_webhook_that_fails_for_a_new_pod_is_reported_with_its_text(
    api: Api, namespace: str, controller: Controller
) -> None:
    with failing(api, namespace, "CREATE"):
        new_job(api, namespace)
        message = wait_for("the reason", lambda: failed_create(api, namespace))
        assert 'failed calling webhook "pods.example.com"' in message
    wait_for("the job to run", lambda: api.job(namespace, "job")["status"]["phase"] == "Running")
    assert controller.ready()


def living(api: Api, namespace: str) -> list[str]:
    """Return the names of the pods that have not ended and are not being deleted."""
    pods = (p for p in api.pods(namespace) if "deletionTimestamp" not in p["metadata"])
    return [p["metadata"]["name"] for p in pods if p["status"]["phase"] not in {"Succeeded", "Failed"}]


def failed_create(api: Api, namespace: str) -> str:
    """Return the message of `PodsReady` for the reason `FailedCreate`; "" for any other."""
    conditions = api.job(namespace, "job").get("status", {}).get("conditions", ())
    return next((c["message"] for c in conditions if (c["type"], c["reason"]) == ("PodsReady", "FailedCreate")), "")
