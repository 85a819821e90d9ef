"""A security context that the API server or the kubelet rejects is an error of its field, before a pod is created."""

from typing import Any

import pytest
from support.factories import manifest

from tfdist.validation import ValidationFailed, parse

Json = dict[str, Any]


def job(main: Json | None = None, pod: Json | None = None) -> Json:
    """Return a job with the security context `main` of its container, in a pod with the fields `pod`."""
    container = {"name": "tensorflow"} | ({"securityContext": main} if main else {})
    return manifest(template={"spec": {"containers": [container]} | (pod or {})})


def of_pod(**security: Any) -> Json:
    return {"securityContext": security}


LOCALHOST = {"type": "Localhost"}
MAIN, POD = "containers[0].securityContext", "securityContext"
REJECTED: dict[str, tuple[Json, str, str]] = {
    "a seccomp profile of the node without a name": (
        job({"seccompProfile": LOCALHOST}),
        f"{MAIN}.seccompProfile.localhostProfile",
        "Required value: the seccomp profile of type Localhost needs the name of a profile",
    ),
    "an AppArmor profile of the node without a name, of the pod": (
        job(pod=of_pod(appArmorProfile=LOCALHOST)),
        f"{POD}.appArmorProfile.localhostProfile",
        "Required value: the AppArmor profile of type Localhost",
    ),
    "the name of a profile that is not used": (
        job({"seccompProfile": {"type": "RuntimeDefault", "localhostProfile": "a.json"}}),
        f"{MAIN}.seccompProfile.localhostProfile",
        'Invalid value: "a.json": is only valid with type Localhost',
    ),
    "a profile outside of the folder of the kubelet": (
        job({"seccompProfile": LOCALHOST | {"localhostProfile": "../a.json"}}),
        f"{MAIN}.seccompProfile.localhostProfile",
        'Invalid value: "../a.json": must be a path below',
    ),
    "the user root that must not be root": (
        job({"runAsUser": 0}, of_pod(runAsNonRoot=True)),
        f"{MAIN}.runAsUser",
        "Forbidden: the kubelet starts no container with runAsUser: 0 and runAsNonRoot: true",
    ),
    "a user beyond the largest one": (job({"runAsUser": 2**31}), f"{MAIN}.runAsUser", "Invalid value: 2147483648"),
    "a negative group of volumes": (
        job(pod=of_pod(fsGroup=-1)),
        f"{POD}.fsGroup",
        "Invalid value: -1: must be between 0",
    ),
    "a negative group of processes": (
        job(pod=of_pod(supplementalGroups=[5, -5])),
        f"{POD}.supplementalGroups[1]",
        "Invalid value: -5",
    ),
    "an unmasked /proc without a user namespace": (
        job({"procMount": "Unmasked"}),
        f"{MAIN}.procMount",
        'Invalid value: "Unmasked": needs hostUsers: false',
    ),
    "a HostProcess container without the network of the node": (
        job({"windowsOptions": {"hostProcess": True}}, {"os": {"name": "windows"}}),
        f"{MAIN}.windowsOptions.hostProcess",
        "Invalid value: true: needs hostNetwork: true",
    ),
    "a system control of the network of the node": (
        job(pod={"hostNetwork": True} | of_pod(sysctls=[{"name": "net.core.somaxconn", "value": "1024"}])),
        f"{POD}.sysctls[0].name",
        'Invalid value: "net.core.somaxconn": must not be set with hostNetwork: true',
    ),
    "ephemeral containers": (
        job(pod={"ephemeralContainers": [{"name": "debug", "image": "busybox"}]}),
        "ephemeralContainers",
        "Forbidden: the API server adds them to running pods only; use kubectl debug",
    ),
}


@pytest.mark.parametrize(("given", "path", "message"), REJECTED.values(), ids=REJECTED)
def test_a_security_context_that_no_cluster_accepts_is_an_error_of_its_field(
    given: Json, path: str, message: str
) -> None:
    with pytest.raises(ValidationFailed) as failed:
        parse(given)
    (error,) = failed.value.problems
    assert error.path == f"spec.template.spec.{path}"
    assert error.message.startswith(message)


@pytest.mark.parametrize(
    "given",
    [
        job({"seccompProfile": LOCALHOST | {"localhostProfile": "profiles/a.json"}}),
        job({"runAsUser": 1000}, of_pod(runAsUser=0, runAsNonRoot=True)),
        job({"runAsUser": 0, "runAsNonRoot": False}, of_pod(runAsNonRoot=True)),
        job({"procMount": "Unmasked"}, {"hostUsers": False}),
        job(pod=of_pod(sysctls=[{"name": "net.core.somaxconn", "value": "1024"}])),
    ],
    ids=["profile", "user of the container", "root of the container", "user namespace", "network of its own"],
)
def test_a_security_context_that_a_cluster_accepts_is_valid(given: Json) -> None:
    assert parse(given)
