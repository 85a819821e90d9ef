"""A real API server accepts every pod of a converted TFJob: the defaults of TFDist contradict no template."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from support.api import PODS, Api
from support.polling import wait_for
from support.tfjob_examples import COUNT, examples
from support.tfjob_strategies import replica_types
from support.tfjobs import replica, tfjob

from tfdist.convert import convert
from tfdist.desired.objects import objects
from tfdist.validation import ValidationFailed, parse
from tfdist_cluster import kubernetes
from tfdist_cluster.versions import KUBERNETES

pytestmark = pytest.mark.integration

Json = dict[str, Any]

IMAGE = "tfdist/trainer:test"
UID = "11111111-2222-3333-4444-555555555555"

ALL = {"allowPrivilegeEscalation": False}
SECURITY: dict[str, Json] = {
    "privileged": {"privileged": True},
    "SYS_ADMIN": {"capabilities": {"add": ["SYS_ADMIN"]}},
    "CAP_SYS_ADMIN": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}},
    "privileged without escalation": {"privileged": True} | ALL,
    "CAP_SYS_ADMIN without escalation": {"capabilities": {"add": ["CAP_SYS_ADMIN"]}} | ALL,
    "SYS_ADMIN without escalation": {"capabilities": {"add": ["SYS_ADMIN"]}} | ALL,
    "root": {"runAsUser": 0},
}
OLDER = pytest.mark.skipif(kubernetes.chosen() != KUBERNETES, reason="an older API server ignores resizePolicy")
RESIZED = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
NEAR: dict[str, list[Json]] = {
    "report port": [{"containerPort": 8790}],
    "TensorFlow port": [{"containerPort": 2222}],
    "own port": [{"containerPort": 9102}],
}


@pytest.fixture
def ready(api: Api, namespace: str) -> str:
    """Return a namespace that admits pods: its ServiceAccount exists."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_for("the namespace's ServiceAccount", lambda: api.send("GET", path).ok)
    return namespace


def pods(manifest: Json, namespace: str) -> Iterator[Json]:
    """Yield the pods of a job as the controller creates them, without the owner, which does not exist."""
    manifest["metadata"] |= {"namespace": namespace, "uid": UID}
    for made in objects(parse(manifest), IMAGE):
        if made["kind"] == "Pod":
            yield made | {"metadata": {k: v for k, v in made["metadata"].items() if k != "ownerReferences"}}


def rejections(api: Api, namespace: str, manifest: Json) -> list[str]:
    """Return the messages with which the API server rejects pods of a job."""
    path = PODS.format(ns=namespace)
    answers = [api.send("POST", path, pod, dryRun="All", fieldValidation="Strict") for pod in pods(manifest, namespace)]
    assert {answer.status_code for answer in answers} <= {201, 422}, [answer.text for answer in answers]
    return [answer.text for answer in answers if not answer.ok]


def is_valid(manifest: Json) -> bool:
    try:
        parse(manifest)
    except ValidationFailed:
        return False
    return True


@pytest.mark.parametrize("number", range(COUNT))
def test_the_pods_of_a_converted_example_are_accepted(api: Api, ready: str, number: int) -> None:
    name = sorted(examples())[number]
    assert rejections(api, ready, convert(examples()[name]).manifest) == [], name


def test_the_pods_of_every_valid_conversion_are_accepted(api: Api, ready: str) -> None:
    @settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None)
    @given(replica_types())
    def accepted(types: Json) -> None:
        manifest = convert(tfjob(types)).manifest
        if is_valid(manifest):
            assert rejections(api, ready, manifest) == []

    accepted()


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("name", SECURITY)
def test_a_sidecar_is_valid_if_and_only_if_the_api_server_accepts_it(
    api: Api, ready: str, name: str, kind: str
) -> None:
    agree(api, ready, pod_with(kind, {"securityContext": SECURITY[name]}))


@pytest.mark.parametrize("host", [True, False], ids=["network of the node", "own network"])
@pytest.mark.parametrize("name", NEAR)
def test_ports_of_a_sidecar_are_valid_if_and_only_if_the_api_server_accepts_them(
    api: Api, ready: str, name: str, host: bool
) -> None:
    agree(api, ready, {"hostNetwork": host} | pod_with("containers", {"ports": NEAR[name]}))


@pytest.mark.parametrize(
    "main",
    [
        *({"securityContext": security} for security in SECURITY.values()),
        pytest.param({"resizePolicy": RESIZED}, marks=OLDER),
        {"ports": [{"name": "tfdist-report", "containerPort": 9000}]},
    ],
    ids=[*SECURITY, "resized", "the name of the report port"],
)
def test_the_main_container_is_valid_if_and_only_if_the_api_server_accepts_it(api: Api, ready: str, main: Json) -> None:
    agree(api, ready, {"containers": [{"name": "tensorflow"} | main]})


def pod_with(kind: str, fields: Json) -> Json:
    return {kind: [{"name": "other", "image": "other:1"} | fields]}


def agree(api: Api, namespace: str, spec: Json) -> None:
    """Assert that validation and the API server agree on a pod: one rejects it if and only if the other does."""
    manifest = convert(tfjob({"Worker": replica(1)})).manifest
    manifest["spec"]["template"] = {"spec": spec}
    if is_valid(manifest):
        assert rejections(api, namespace, manifest) == []
    else:
        theirs = api.send("POST", PODS.format(ns=namespace), bare_pod(spec), dryRun="All", fieldValidation="Strict")
        assert theirs.status_code == 422, "validation rejects a pod that the API server accepts"


def bare_pod(spec: Json) -> Json:
    """Return the pod with the parts of TFDist that the rules compare a template with, made without validation."""
    ports = [{"name": "tfdist-port", "containerPort": 2222}, {"name": "tfdist-report", "containerPort": 8790}]
    own: Json = next((c for c in spec.get("containers", ()) if c["name"] == "tensorflow"), {})
    main = {"name": "tensorflow", "image": IMAGE} | own | {"ports": [*ports, *own.get("ports", ())]}
    others = [c for c in spec.get("containers", ()) if c["name"] != "tensorflow"]
    content = spec | {"containers": [main, *others], "restartPolicy": "Never"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": content}
