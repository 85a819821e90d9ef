"""A real API server rejects the security contexts that are errors of a job, and accepts those that are not."""

from typing import Any

import pytest
from support.api import PODS, Api
from support.polling import wait_for
from support.security_contexts import ACCEPTED, BY_KUBELET, REJECTED

from tfdist_cluster import kubernetes
from tfdist_cluster.versions import KUBERNETES

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(kubernetes.chosen() != KUBERNETES, reason="older API servers have fewer rules"),
]

Json = dict[str, Any]


@pytest.fixture
def ready(api: Api, namespace: str) -> str:
    """Return a namespace that admits pods: its ServiceAccount exists."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_for("the namespace's ServiceAccount", lambda: api.send("GET", path).ok)
    return namespace


def created(api: Api, namespace: str, job: Json) -> int:
    """Return the status with which the API server answers the creation of a pod of the job's template."""
    spec = job["spec"]["template"]["spec"]
    containers = [{"image": "tfdist/trainer:test"} | container for container in spec["containers"]]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec | {"containers": containers}}
    return api.send("POST", PODS.format(ns=namespace), pod, dryRun="All").status_code


def test_what_is_an_error_of_a_job_is_rejected(api: Api, ready: str) -> None:
    answers = {title: created(api, ready, job) for title, (job, _, _) in REJECTED.items()}
    assert answers == {title: 201 if title in BY_KUBELET else 422 for title in REJECTED}


def test_what_is_valid_in_a_job_is_accepted(api: Api, ready: str) -> None:
    answers = {title: created(api, ready, job) for title, job in ACCEPTED.items()}
    assert answers == dict.fromkeys(ACCEPTED, 201)
