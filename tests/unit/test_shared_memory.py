"""`/dev/shm` of a replica: larger than the container runtime's if several GPUs exchange through it."""

from typing import Any

import pytest
from support.factories import manifest
from support.local_plans import alone, prepared

from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.names import ROLE_LABEL
from tfdist.render.pod import Attempt, pod
from tfdist.validation import parse

SHM = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}}


def rendered(gpus: Any, pod_defaults: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """Return the pod of a worker with this limit for GPUs."""
    job = parse(manifest(resources={"limits": {"nvidia.com/gpu": gpus}}, **spec))
    gang = gangs(job)[0]
    installation = Installation("tfdist/trainer:test", pod_defaults=pod_defaults or {})
    return pod(job, gang, gang.members[0], Attempt(0, 0), installation)


def shared_memory(made: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the volumes that the container `tensorflow` has at `/dev/shm`."""
    volumes = {volume["name"]: volume for volume in made["spec"]["volumes"]}
    mounts = made["spec"]["containers"][0]["volumeMounts"]
    return [volumes[mount["name"]] for mount in mounts if mount["mountPath"].rstrip("/") == "/dev/shm"]


def mounted_at(path: str) -> dict[str, Any]:
    container = {"name": "tensorflow", "volumeMounts": [{"name": "shm", "mountPath": path}]}
    return {"spec": {"volumes": [SHM], "containers": [container]}}


@pytest.mark.parametrize(("gpus", "size"), [(2, "2Gi"), ("8", "8Gi")])
def test_a_replica_with_several_gpus_has_memory_for_each_at_dev_shm(gpus: Any, size: str) -> None:
    (volume,) = shared_memory(rendered(gpus))
    assert volume == {"name": "tfdist-shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_replica_without_several_gpus_has_that_of_the_container_runtime(gpus: int) -> None:
    made = rendered(gpus)
    assert shared_memory(made) == []
    assert [volume["name"] for volume in made["spec"]["volumes"]] == ["tfdist-tmp"]


@pytest.mark.parametrize("path", ["/dev/shm", "/dev/shm/"])
def test_a_volume_that_a_job_mounts_there_is_the_only_one(path: str) -> None:
    made = rendered(8, template=mounted_at(path))
    assert shared_memory(made) == [SHM]
    assert "tfdist-shm" not in str(made)


def test_a_volume_that_the_installation_mounts_there_is_the_only_one() -> None:
    made = rendered(8, pod_defaults=mounted_at("/dev/shm"))
    assert shared_memory(made) == [SHM]
    assert "tfdist-shm" not in str(made)


def test_a_volume_that_a_job_mounts_below_it_is_added() -> None:
    made = rendered(8, template=mounted_at("/dev/shm/cache"))
    assert [volume["name"] for volume in shared_memory(made)] == ["tfdist-shm"]
    assert SHM in made["spec"]["volumes"]


def test_a_pod_with_the_shared_memory_of_its_node_keeps_it() -> None:
    assert shared_memory(rendered(8, template={"spec": {"hostIPC": True}})) == []


def test_only_the_role_with_gpus_has_it() -> None:
    spec: dict[str, Any] = {"chief": {}, "ps": {"replicas": 1}, "strategy": "ParameterServer"}
    limits = {"limits": {"nvidia.com/gpu": 2}}
    job = parse(manifest(worker={"replicas": 1, "resources": limits}, **spec))
    gang = gangs(job)[0]
    pods = [pod(job, gang, member, Attempt(0, 0), Installation("tfdist/trainer:test")) for member in gang.members]
    found = {made["metadata"]["labels"][ROLE_LABEL]: bool(shared_memory(made)) for made in pods}
    assert found == {"chief": False, "ps": False, "worker": True}


def test_a_local_run_has_the_shared_memory_of_its_machine() -> None:
    limits = {"limits": {"nvidia.com/gpu": 2}}
    made = prepared(alone(command=["train", "--cache=/dev/shm/cache"], resources=limits))
    [only] = made.replicas.values()
    assert "--cache=/dev/shm/cache" in only.command
