"""The tests' own installation on a cluster of somebody else's, on a real API server: whole, and gone again."""

import json
import pathlib
from collections.abc import Iterator

import pytest
from support.api import Json
from support.control_plane import control_plane
from support.factories import manifest

from tfdist_cluster.errors import ClusterError
from tfdist_cluster.paths import State
from tfdist_demo import borrowed, install, manifests
from tfdist_demo.kubectl import Kubectl
from tfdist_demo.place import DEMO, TEST_NAMESPACES, TESTS

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

KINDS = ("namespaces", "clusterroles", "clusterrolebindings", "customresourcedefinitions", "persistentvolumes")
"""What no namespace takes along."""
IMAGES = {"controller": "tfdist/controller:test", "trainer": "tfdist/trainer:test"}


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[pathlib.Path]:
    with control_plane(fake_nodes=1) as found:
        yield found


@pytest.fixture
def kubectl(kubeconfig: pathlib.Path) -> Kubectl:
    return Kubectl(State.from_environment().bin / "kubectl", str(kubeconfig), TESTS)


def everything(kubectl: Kubectl) -> dict[str, set[str]]:
    """Return the names of all that is in the cluster and in no namespace."""
    return {kind: names(json.loads(kubectl.run("get", kind, "--output=json"))) for kind in KINDS}


def names(listed: Json) -> set[str]:
    return {item["metadata"]["name"] for item in listed["items"]}


def volume(name: str, namespace: str) -> Json:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "namespace": namespace},
        "hostPath": {"path": "/nowhere"},
        "persistentVolumeReclaimPolicy": "Retain",
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def job(namespace: str) -> Json:
    made = manifest("fashion", namespace)
    del made["metadata"]["uid"]
    return made


def test_all_of_the_tests_goes_and_all_of_others_stays(kubectl: Kubectl) -> None:
    kubectl.apply(manifests.restricted_namespace("theirs"), volume("theirs", "theirs"))
    before = everything(kubectl)
    borrowed.require_free(kubectl)
    borrowed.clean(kubectl)
    assert everything(kubectl) == before, "of a cluster that has nothing of ours nothing is removed"

    install.install(kubectl, **IMAGES)
    for namespace in (TESTS.namespace, f"{TEST_NAMESPACES}more"):
        kubectl.apply(manifests.restricted_namespace(namespace), job(namespace))
    kubectl.apply(volume("ours", TESTS.namespace))
    during = everything(kubectl)
    assert all(during[kind] - before[kind] for kind in KINDS)
    borrowed.require_free(kubectl)  # the next run may begin where this one was killed

    borrowed.clean(kubectl)
    assert everything(kubectl) == before


def test_a_cluster_with_another_installation_is_rejected(kubectl: Kubectl) -> None:
    theirs = Kubectl(kubectl.program, kubectl.kubeconfig, DEMO)
    install.install(theirs, **IMAGES)
    theirs.apply(manifests.restricted_namespace(DEMO.namespace), job(DEMO.namespace))
    before = everything(kubectl)
    with pytest.raises(ClusterError, match=f"the release {DEMO.release} in the namespace {DEMO.system}"):
        borrowed.require_free(kubectl)
    borrowed.clean(kubectl)  # which is not intended, and must have no effect
    assert everything(kubectl) == before
    assert theirs.get("tfd", "fashion", f"--namespace={DEMO.namespace}") is not None
