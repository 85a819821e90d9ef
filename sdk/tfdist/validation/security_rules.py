"""Rules of the API server about security contexts: users, profiles, /proc, Windows, system controls.

A pod that breaks one is rejected as a whole. The messages name the same rules as the messages of Kubernetes
(`ValidateSecurityContext` and its neighbours in pkg/apis/core/validation).
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tfdist import messages
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render.template import all_containers
from tfdist.validation.errors import FieldError
from tfdist.validation.field_source import pod_field_path, source_path

Json = Mapping[str, Any]

_LARGEST_ID: Final = 2**31 - 1
_PROFILES: Final = {"seccompProfile": "seccomp", "appArmorProfile": "AppArmor"}


class _Problem(NamedTuple):
    """A field of a security context, and the error in it."""

    place: str
    message: str


def security_problems(job: TFDistJob, role: Role, template: Json) -> Iterator[FieldError]:
    """Yield the errors in the security contexts of the pod and of its containers."""
    spec = template.get("spec", {})
    pod = spec.get("securityContext", {})
    path = pod_field_path(job, role, "securityContext")
    for problem in (*_common_problems(pod), *_pod_problems(spec, pod)):
        yield FieldError(path if path == "spec" else f"{path}.{problem.place}", problem.message)
    for container in all_containers(template):
        security = container.get("securityContext", {})
        for problem in (
            *_common_problems(security),
            *_container_problems(spec, security),
            *_root_problems(pod, security),
        ):
            find = partial(_place_in, problem.place)
            yield FieldError(source_path(job, role, container["name"], find), problem.message)


def _place_in(place: str, container: Json) -> str | None:
    """Return the path of a field of the security context of one level, None if that level does not set it."""
    field = place.partition(".")[0]
    return f".securityContext.{place}" if field in container.get("securityContext", {}) else None


def _common_problems(security: Json) -> Iterator[_Problem]:
    """Yield the errors that pods and containers can have."""
    for name in ("runAsUser", "runAsGroup"):
        if not 0 <= security.get(name, 0) <= _LARGEST_ID:
            yield _Problem(name, _not_an_id(security[name]))
    for name, kind in _PROFILES.items():
        yield from _profile(name, kind, security.get(name, {}))


def _not_an_id(number: int) -> str:
    return messages.invalid(number, f"must be between 0 and {_LARGEST_ID}")


def _profile(name: str, kind: str, profile: Json) -> Iterator[_Problem]:
    """Yield a profile of the node without a name, or the name of one that is not used."""
    is_local, path = profile.get("type") == "Localhost", profile.get("localhostProfile", "")
    place = f"{name}.localhostProfile"
    if is_local and not path.strip():
        yield _Problem(place, messages.required(f"the {kind} profile of type Localhost needs the name of a profile"))
    elif path and not is_local:
        text = f"is only valid with type Localhost; remove it, or set {name}.type: Localhost"
        yield _Problem(place, messages.invalid(path, text))
    elif name == "seccompProfile" and (path.startswith("/") or ".." in path.split("/")):
        text = "must be a path below the kubelet's folder of profiles, without .. in it"
        yield _Problem(place, messages.invalid(path, text))


def _pod_problems(spec: Json, security: Json) -> Iterator[_Problem]:
    if not 0 <= security.get("fsGroup", 0) <= _LARGEST_ID:
        yield _Problem("fsGroup", _not_an_id(security["fsGroup"]))
    for i, number in enumerate(security.get("supplementalGroups", ())):
        if not 0 <= number <= _LARGEST_ID:
            yield _Problem(f"supplementalGroups[{i}]", _not_an_id(number))
    for i, control in enumerate(security.get("sysctls", ())):
        name = control.get("name", "").replace("/", ".")
        for host in ("hostNetwork", "hostIPC"):
            if spec.get(host) is True and _belongs(name, host):
                text = f"must not be set with {host}: true: it would change the node; remove one of the two"
                yield _Problem(f"sysctls[{i}].name", messages.invalid(name, text))


def _belongs(control: str, host: str) -> bool:
    """Return whether a system control belongs to the network namespace or the IPC namespace."""
    if host == "hostNetwork":
        return control.startswith("net.")
    return control.startswith(("kernel.shm", "kernel.msg", "fs.mqueue.")) or control == "kernel.sem"


def _container_problems(spec: Json, security: Json) -> Iterator[_Problem]:
    if security.get("procMount") == "Unmasked" and spec.get("hostUsers") is not False:
        yield _Problem("procMount", messages.invalid("Unmasked", "needs hostUsers: false in the pod; set it there"))
    if security.get("windowsOptions", {}).get("hostProcess") is True and spec.get("hostNetwork") is not True:
        text = messages.invalid(value=True, rule="needs hostNetwork: true in the pod; set it there, or remove this")
        yield _Problem("windowsOptions.hostProcess", text)


def _root_problems(pod: Json, security: Json) -> Iterator[_Problem]:
    """Yield the user 0 of a container that must not run as root: the kubelet never starts it."""
    user, non_root = (security.get(name, pod.get(name)) for name in ("runAsUser", "runAsNonRoot"))
    if user == 0 and non_root is True:
        place = "runAsUser" if security.get("runAsUser") == 0 else "runAsNonRoot"
        text = "the kubelet starts no container with runAsUser: 0 and runAsNonRoot: true; remove one of the two"
        yield _Problem(place, messages.forbidden(text))
