"""Rendered configurations are complete and valid for kind and the servers."""

from dataclasses import asdict
from pathlib import Path

import pytest
import yaml

from tfdist_cluster import control_plane, gobuild, images, kind, node_image, versions
from tfdist_cluster.paths import GO_MODULE, State


@pytest.mark.parametrize("count", [1, 3])
def test_kind_gets_one_control_plane_and_the_shared_folder_in_every_node(tmp_path: Path, count: int) -> None:
    rendered = kind.configuration(State(tmp_path, tmp_path), "name", count, lacks_resource_capability=False)
    configuration = yaml.safe_load(rendered)
    assert [node["role"] for node in configuration["nodes"]] == ["control-plane"] + ["worker"] * (count - 1)
    for node in configuration["nodes"]:
        assert node["extraMounts"] == [{"hostPath": str(tmp_path / "shared"), "containerPath": versions.SHARED_MOUNT}]
    assert configuration["name"] == "name"
    assert "containerdConfigPatches" not in configuration


def test_oom_scores_are_restricted_only_where_they_cannot_be_lowered(tmp_path: Path) -> None:
    rendered = kind.configuration(State(tmp_path, tmp_path), "name", 1, lacks_resource_capability=True)
    (patch,) = yaml.safe_load(rendered)["containerdConfigPatches"]
    assert "restrict_oom_score_adj = true" in patch


def test_kubelets_accept_cgroup_v1_and_dns_has_the_version_that_is_built(tmp_path: Path) -> None:
    rendered = kind.configuration(State(tmp_path, tmp_path), "name", 1, lacks_resource_capability=False)
    kubelet, cluster = (yaml.safe_load(patch) for patch in yaml.safe_load(rendered)["kubeadmConfigPatches"])
    assert kubelet["failCgroupV1"] is False
    assert cluster["dns"] == {"imageTag": versions.COREDNS_TAG}


@pytest.mark.parametrize("name", ["network.yaml", "storage.yaml"])
def test_manifests_use_only_images_of_the_node(name: str) -> None:
    documents = [document for document in yaml.safe_load_all(node_image.manifest(name)) if document]
    templates = [document["spec"]["template"] for document in documents if "template" in document.get("spec", {})]
    specifications = [template["spec"] for template in templates]
    assert specifications
    for specification in specifications:
        for container in specification["containers"]:
            assert container["image"] in {images.KUBE_IMAGE, images.NETWORK_IMAGE}
            assert container["command"][0] in gobuild.COMPONENTS
            assert container["imagePullPolicy"] == "IfNotPresent"


def test_exactly_one_storage_class_is_the_default() -> None:
    documents = yaml.safe_load_all(node_image.manifest("storage.yaml"))
    found = [document["metadata"] for document in documents if document["kind"] == "StorageClass"]
    assert {metadata["name"]: metadata.get("annotations", {}) for metadata in found} == {
        "standard": {"storageclass.kubernetes.io/is-default-class": "true"},
        "shared": {},
    }


def test_the_go_module_requires_the_versions_of_the_tags() -> None:
    required = (GO_MODULE / "go.mod").read_text()
    assert f"k8s.io/kubernetes {versions.KUBERNETES}" in required
    assert f"github.com/coredns/coredns {versions.COREDNS_TAG}" in required
    assert f"go.etcd.io/etcd/server/v3 v{versions.ETCD_TAG.partition('-')[0]}" in required


def test_every_name_of_the_executable_is_a_component_of_its_source() -> None:
    source = (GO_MODULE / "cmd" / "kube" / "main.go").read_text()
    assert [name for name in gobuild.COMPONENTS if f'"{name}":' not in source] == []


@pytest.mark.parametrize("server", control_plane.SERVERS)
def test_servers_listen_on_the_loopback_address_only(server: str) -> None:
    ports = control_plane.Ports.free()
    options = control_plane.options(server, ports, Path("/folder"))
    if server == "etcd":
        assert all("//127.0.0.1:" in option for option in options if "urls=" in option)
    else:
        assert "--bind-address=127.0.0.1" in options
    assert any(str(port) in option for port in asdict(ports).values() for option in options)


def test_free_ports_differ() -> None:
    assert len(set(asdict(control_plane.Ports.free()).values())) == 5


def test_paths_resolve_inside_a_root(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/real.so.1.2").touch()
    (tmp_path / "usr/lib/real.so.1").symlink_to("real.so.1.2")
    (tmp_path / "lib").symlink_to("/usr/lib")  # absolute: it must not leave the root
    (tmp_path / "usr/up.so").symlink_to("../lib/real.so.1")
    assert images.inside(tmp_path, "/lib/real.so.1") == tmp_path / "usr/lib/real.so.1.2"
    assert images.inside(tmp_path, "/usr/up.so").samefile(tmp_path / "usr/lib/real.so.1.2")
