"""Security contexts of jobs that the API server or the kubelet rejects, and some that they accept."""

from typing import Any, Final

from support.factories import manifest

Json = dict[str, Any]


def job(main: Json | None = None, pod: Json | None = None) -> Json:
    """Return a job with the security context `main` of its container, in a pod with the fields `pod`."""
    container = {"name": "tensorflow"} | ({"securityContext": main} if main else {})
    return manifest(template={"spec": {"containers": [container]} | (pod or {})})


def of_pod(**security: Any) -> Json:
    return {"securityContext": security}


LOCALHOST: Final = {"type": "Localhost"}
MAIN: Final = "containers[0].securityContext"
POD: Final = "securityContext"
REJECTED: Final[dict[str, tuple[Json, str, str]]] = {
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
"""By title: a job, the path of the error below the pod's `spec`, and how its message begins."""

BY_KUBELET: Final = frozenset({"the user root that must not be root"})
"""Titles of those that the API server admits and the kubelet never starts."""

ACCEPTED: Final[dict[str, Json]] = {
    "profile": job({"seccompProfile": LOCALHOST | {"localhostProfile": "profiles/a.json"}}),
    "user of the container": job({"runAsUser": 1000}, of_pod(runAsUser=0, runAsNonRoot=True)),
    "root of the container": job({"runAsUser": 0, "runAsNonRoot": False}, of_pod(runAsNonRoot=True)),
    "user namespace": job({"procMount": "Unmasked"}, {"hostUsers": False}),
    "network of its own": job(pod=of_pod(sysctls=[{"name": "net.core.somaxconn", "value": "1024"}])),
}
