"""The API server takes every sample, and every object that is rendered from it."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.api import JOBS, Api
from support.factories import UID
from support.samples import SAMPLES, sample

from tfdist.desired.objects import objects
from tfdist.validation import parse

pytestmark = pytest.mark.integration


PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RUNTIME_CLASSES = "/apis/node.k8s.io/v1/runtimeclasses"
ACCOUNTS = "/api/v1/namespaces/{ns}/serviceaccounts"
PATHS = {
    "Deployment": "/apis/apps/v1/namespaces/{ns}/deployments",
    "Service": "/api/v1/namespaces/{ns}/services",
    "Pod": "/api/v1/namespaces/{ns}/pods",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
}


@pytest.fixture(scope="module")
def priority_and_runtime_class(api: Api) -> Iterator[None]:
    """The classes that samples name, for the server takes no pod of one that it does not know."""
    priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia"}
    api.apply(priority | {"metadata": {"name": "production"}}, PRIORITY_CLASSES)
    api.apply(runtime | {"metadata": {"name": "nvidia"}}, RUNTIME_CLASSES)
    yield
    api.do("DELETE", f"{PRIORITY_CLASSES}/production")
    api.do("DELETE", f"{RUNTIME_CLASSES}/nvidia")


@pytest.fixture
def service_account(api: Api, namespace: str) -> None:
    """The account that a sample names, for the same reason."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer"}}
    api.apply(account, ACCOUNTS.format(ns=namespace))


def placed(name: str, namespace: str) -> dict[str, Any]:
    """A sample as it would be stored in a namespace."""
    manifest = sample(name)
    return manifest | {"metadata": manifest["metadata"] | {"namespace": namespace}}


@pytest.mark.parametrize("name", SAMPLES)
def test_the_server_accepts_the_job(api: Api, namespace: str, name: str) -> None:
    api.do("POST", JOBS.format(ns=namespace), placed(name, namespace), dryRun="All", fieldValidation="Strict")


@pytest.mark.usefixtures("priority_and_runtime_class", "service_account")
@pytest.mark.parametrize("name", SAMPLES)
def test_the_server_accepts_the_objects_made_of_it(api: Api, namespace: str, name: str) -> None:
    manifest = placed(name, namespace)
    manifest["metadata"]["uid"] = UID
    for made in objects(parse(manifest), "tfdist/trainer:dev"):
        api.do("POST", PATHS[made["kind"]].format(ns=namespace), made, dryRun="All", fieldValidation="Strict")
