"""The samples for GPUs on nodes that offer such devices, by the real scheduler: only the devices are simulated."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
from support.api import Api
from support.places import node_with, phase, pods_of, scheduled
from support.polling import wait_for
from support.samples import sample

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("controller", "_nvidia_runtime")]

RUNTIME_CLASSES: Final = "/apis/node.k8s.io/v1/runtimeclasses"
DRA: Final = "/apis/resource.k8s.io/v1"
GPU: Final = "nvidia.com/gpu"
"""Name of the resource, and key of the taint of nodes with GPUs."""


@dataclass(frozen=True)
class Case:
    """A sample and the nodes that it needs."""

    name: str
    nodes: int
    resources: Mapping[str, str]
    """What each node offers."""
    missing: str
    """What the scheduler reports while a node is missing."""
    labels: dict[str, str] = field(default_factory=dict)
    devices: int = 0
    """Devices that the node's driver for resource claims offers."""


QUICK: Final = {"gpu", "gpu-resource-claim"}
"""Cases that are no variant of another."""
OWN: Final = {"example.com/pool": "gpu"}
P4D: Final = {"node.kubernetes.io/instance-type": "p4d.24xlarge"}
CASES: Final = (
    Case("gpu", 4, {GPU: "8"}, f"Insufficient {GPU}"),
    Case("mirrored", 1, {GPU: "4"}, f"Insufficient {GPU}"),
    Case("gpu-mig", 1, {"nvidia.com/mig-3g.40gb": "2"}, "Insufficient nvidia.com/mig-3g.40gb"),
    Case("gpu-infiniband", 4, {GPU: "8", "rdma/rdma_shared_device_a": "63"}, f"Insufficient {GPU}"),
    Case("gpu-efa", 4, {GPU: "8", "vpc.amazonaws.com/efa": "4", "hugepages-2Mi": "5Gi"}, f"Insufficient {GPU}", P4D),
    Case("gpu-resource-claim", 2, {}, "cannot allocate all claims", devices=2),
)


@pytest.fixture(scope="module")
def _nvidia_runtime(api: Api) -> Iterator[None]:
    api.apply(
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "nvidia", "metadata": {"name": "nvidia"}},
        RUNTIME_CLASSES,
    )
    yield
    api.do("DELETE", f"{RUNTIME_CLASSES}/nvidia")


@pytest.fixture(scope="module")
def _device_class(api: Api) -> Iterator[None]:
    """The class of devices that NVIDIA's driver for resource claims installs."""
    expression = "device.driver == 'gpu.nvidia.com'"
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    api.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.nvidia.com"},
            "spec": spec,
        },
        f"{DRA}/deviceclasses",
    )
    yield
    api.do("DELETE", f"{DRA}/deviceclasses/gpu.nvidia.com")


@pytest.mark.usefixtures("_device_class")
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case.name in QUICK else pytest.mark.long, id=case.name) for case in CASES],
)
def test_the_replicas_wait_for_the_devices_and_run_when_each_has_its_own(case: Case, api: Api, namespace: str) -> None:
    claims = {"requests": [{"name": "gpus", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]}
    template = {"metadata": {"name": "two-gpus"}, "spec": {"spec": {"devices": claims}}}
    api.do("POST", f"{DRA}/namespaces/{namespace}/resourceclaimtemplates", template)
    manifest = sample(case.name)
    manifest["metadata"]["namespace"] = namespace
    # Only for the nodes of this test: others of the cluster offer GPUs too.
    pods = manifest["spec"].setdefault("template", {}).setdefault("spec", {})
    pods["nodeSelector"] = pods.get("nodeSelector", {}) | OWN
    with ExitStack() as nodes:
        # given one node too few, and one without devices
        nodes.enter_context(node_with(api, {}, labels=case.labels | OWN))
        names = {nodes.enter_context(_gpu_node(api, case)) for _ in range(case.nodes - 1)}
        api.create_job(manifest)

        def message() -> str:
            return str(api.job(namespace, case.name).get("status", {}).get("summary", {}).get("message", ""))

        wait_for("the message", lambda: case.missing in message(), context=message)
        assert scheduled(api, namespace, case.name) < case.nodes
        # when there is another one
        names.add(nodes.enter_context(_gpu_node(api, case)))
        # then
        wait_for("the job to run", lambda: phase(api, namespace, case.name) == "Running", context=message)
        assert {pod["spec"]["nodeName"] for pod in pods_of(api, namespace, case.name)} == names


@contextmanager
def _gpu_node(api: Api, case: Case) -> Iterator[str]:
    """Make a node with the devices of a case, tainted if the sample tolerates it; yield its name."""
    pods = sample(case.name)["spec"].get("template", {}).get("spec", {})
    taint = GPU if "tolerations" in pods else ""
    with node_with(api, case.resources, taint=taint, labels=case.labels | OWN) as name:
        if not case.devices:
            yield name
            return
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{number}"} for number in range(case.devices)]
        spec = {"driver": "gpu.nvidia.com", "nodeName": name, "pool": pool, "devices": devices}
        api.do("POST", f"{DRA}/resourceslices", {"metadata": {"name": name}, "spec": spec})
        try:
            yield name
        finally:
            api.do("DELETE", f"{DRA}/resourceslices/{name}")
