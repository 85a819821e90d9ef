"""The destination of images depends on the current context, the registry and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from tfdist_cluster.errors import ClusterError
from tfdist_images import load
from tfdist_images.load import Destination


@pytest.mark.parametrize(
    ("context", "own", "registry", "where"),
    [
        (None, True, None, Destination.OWN),
        ("kind-dev", False, None, Destination.KIND),
        ("minikube", False, None, Destination.MINIKUBE),
        ("production", False, "registry.example.com", Destination.REGISTRY),
        ("kind-dev", False, "registry.example.com", Destination.REGISTRY),
    ],
)
def test_destination(context: str | None, own: bool, registry: str | None, where: Destination) -> None:
    assert load.destination(context=context, own=own, registry=registry) is where


@pytest.mark.parametrize("context", ["production", "", "minikube-2", None])
def test_another_cluster_is_rejected_with_the_setting_that_allows_it(context: str | None) -> None:
    with pytest.raises(ClusterError, match="Set REGISTRY"):
        load.destination(context=context, own=False, registry=None)


def test_the_own_cluster_is_identified_by_its_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFDIST_STATE", str(tmp_path))
    monkeypatch.setenv("TFDIST_CACHE", str(tmp_path))
    assert load.is_own_cluster({})
    assert load.is_own_cluster({"KUBECONFIG": str(tmp_path / "kind/kubeconfig")})
    assert not load.is_own_cluster({"KUBECONFIG": "/home/someone/.kube/config"})


def node(*images: str, control_plane: bool = False) -> dict[str, Any]:
    labels = {"node-role.kubernetes.io/control-plane": ""} if control_plane else {}
    return {"metadata": {"labels": labels}, "status": {"images": [{"names": [name]} for name in images]}}


@pytest.mark.parametrize(
    ("nodes", "have"),
    [
        ([node("docker.io/tfdist/trainer:1")], True),
        ([node("tfdist/trainer:1", "other:2")], True),
        ([node("docker.io/tfdist/trainer:2")], False),
        ([node("docker.io/tfdist/trainer:1"), node()], False),
        ([node(control_plane=True), node("docker.io/tfdist/trainer:1")], True),
        ([node("docker.io/tfdist/trainer:1", control_plane=True)], True),
        ([], False),
    ],
)
def test_an_image_is_loaded_when_every_node_that_runs_pods_lists_it(nodes: list[dict[str, Any]], have: bool) -> None:
    assert load.all_nodes_list({"items": nodes}, "tfdist/trainer:1") is have
