"""Rules of the API server between fields of a pod: names, sub-paths, privileges, ports, resize policies.

Those about security contexts alone are in `security_rules`.

A pod that breaks one is rejected as a whole, so the job could never start. The defaults of TFDist are taken into
account: the port names of the container `tensorflow`, and `restartPolicy: Never`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from tfdist import messages
from tfdist.api.v1 import TFDistJob
from tfdist.contract import MAIN_CONTAINER, REPORT_PORT, Role
from tfdist.podspec import merge
from tfdist.render.defaults import default_ports
from tfdist.render.template import all_containers
from tfdist.validation.errors import FieldError
from tfdist.validation.field_source import INIT_CONTAINERS, pod_field_path, source_path

Template = Mapping[str, Any]
Json = Mapping[str, Any]

_OUTSIDE: Final = re.compile(r"^/|(^|/)\.\.(/|$)")
_SUB_PATHS: Final = ("subPath", "subPathExpr")
_SYS_ADMIN: Final = "CAP_SYS_ADMIN"
"""The API server compares only this spelling; the container runtime gives the privileges of `SYS_ADMIN` too."""


def api_server_problems(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield the errors for which the API server would reject the pods of `role`."""
    for check in (
        _init_container_names,
        _sub_paths,
        _process_namespaces,
        _privileges,
        _resize_policies,
        _port_names,
        _host_ports,
    ):
        yield from check(job, role, template)


def _init_container_names(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield init containers with the name of a container: names are unique in a pod."""
    spec = template.get("spec", {})
    names = {MAIN_CONTAINER, *(container["name"] for container in spec.get("containers", ()))}
    for container in spec.get("initContainers", ()):
        name = container["name"]
        if name in names:
            path = source_path(job, role, name, lambda _: ".name", INIT_CONTAINERS)
            yield FieldError(path, messages.duplicate(name, "a container of the pod has this name; use another name"))


def _sub_paths(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield mounts of a path outside the volume."""
    for container in all_containers(template):
        for mount in container.get("volumeMounts", ()):
            for field in _SUB_PATHS:
                if _OUTSIDE.search(str(mount.get(field, ""))):
                    place = partial(_place_of_sub_path, mount["mountPath"], field)
                    text = messages.invalid(mount[field], "must be a relative path within the volume, without ..")
                    yield FieldError(source_path(job, role, container["name"], place), text)


def _place_of_sub_path(mount_path: str, field: str, container: Mapping[str, Any]) -> str | None:
    mounts = enumerate(container.get("volumeMounts", ()))
    places = (f".volumeMounts[{i}].{field}" for i, m in mounts if m["mountPath"] == mount_path and field in m)
    return next(places, None)


def _process_namespaces(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    spec = template.get("spec", {})
    if spec.get("hostPID") is True and spec.get("shareProcessNamespace") is True:
        path = pod_field_path(job, role, "shareProcessNamespace")
        yield FieldError(
            path, messages.invalid(value=True, rule="must not be true with hostPID: true; remove one of the two")
        )


def _privileges(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield a container that forbids privilege escalation and has all privileges already."""
    for container in all_containers(template):
        security = container.get("securityContext", {})
        if security.get("allowPrivilegeEscalation") is not False:
            continue
        if security.get("privileged") is True:
            grant = "privileged: true"
        elif _SYS_ADMIN in security.get("capabilities", {}).get("add", ()):
            grant = f"capabilities.add: [{_SYS_ADMIN}]"
        else:
            continue
        text = messages.invalid(value=False, rule=f"must not be false with {grant}; remove one of the two")
        yield FieldError(source_path(job, role, container["name"], _place_of_escalation), text)


def _place_of_escalation(container: Json) -> str | None:
    """Return the field of a level that sets it; if the installation does, `privileged` or `capabilities`."""
    security = container.get("securityContext", {})
    for name in ("allowPrivilegeEscalation", "privileged", "capabilities"):
        if name in security:
            return f".securityContext.{name}"
    return None


def _resize_policies(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield a policy that restarts a container in place: the pod has `restartPolicy: Never`."""
    for container in all_containers(template):
        for policy in container.get("resizePolicy", ()):
            if policy.get("restartPolicy") == "RestartContainer" and container.get("restartPolicy") != "Always":
                text = messages.invalid("RestartContainer", "must be NotRequired: pods have restartPolicy Never")
                place = partial(_place_in, "resizePolicy", policy, ".restartPolicy")
                yield FieldError(source_path(job, role, container["name"], place), text)


def _port_names(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield ports of a container with the same name, one of them possibly a default of TFDist."""
    for container in all_containers(template):
        ports: dict[str, Json] = {}
        for port in container_ports(template, container):
            first = ports.setdefault(port.get("name", ""), port)
            if first is port or not port.get("name"):
                continue
            detail = f"port {first['containerPort']} of the container has this name; use another name"
            place = partial(_place_in, "ports", port, ".name")
            path = source_path(job, role, container["name"], place)
            yield FieldError(path, messages.duplicate(port["name"], detail))


def _host_ports(job: TFDistJob, role: Role, template: Template) -> Iterator[FieldError]:
    """Yield a port of the node that two containers of a pod would open."""
    spec = template.get("spec", {})
    ports: dict[tuple[Any, ...], tuple[str, Json]] = {}
    for container in _main_first(spec.get("containers", ())):
        for port in container_ports(template, container):
            number = port["containerPort"] if spec.get("hostNetwork") else port.get("hostPort")
            key = (port.get("protocol", "TCP"), port.get("hostIP", ""), number)
            first, first_port = ports.setdefault(key, (container["name"], port))
            if not number or first_port is port:
                continue
            user = "TFDist's progress report" if number == REPORT_PORT else f"the container {first}"
            text = f"this port of the node is used by {user}; use another port"
            field = ".containerPort" if spec.get("hostNetwork") else ".hostPort"
            place = partial(_place_in, "ports", port, field)
            yield FieldError(source_path(job, role, container["name"], place), messages.duplicate(str(number), text))


def container_ports(template: Template, container: Json) -> Sequence[Json]:
    """Return the ports of a container, with TFDist's default ones, which come first as in the merged pod."""
    ports: Sequence[Json] = container.get("ports", ())
    if container["name"] != MAIN_CONTAINER:
        return ports
    defaults = {"ports": default_ports(template)}
    merged: Sequence[Json] = merge(defaults, {"ports": list(ports)}, "Container")["ports"]
    return merged


def _main_first(containers: Sequence[Json]) -> list[Json]:
    """Return the containers, `tensorflow` first and always present: it has default ports."""
    main = next((c for c in containers if c["name"] == MAIN_CONTAINER), {"name": MAIN_CONTAINER})
    return [main, *(c for c in containers if c["name"] != MAIN_CONTAINER)]


def _place_in(name: str, item: Json, field: str, container: Json) -> str | None:
    """Return the path of `field` of the item of a level's list that equals `item` in every field that it sets."""
    places: Iterator[tuple[int, Json]] = enumerate(container.get(name, ()))
    return next((f".{name}[{i}]{field}" for i, candidate in places if candidate.items() <= item.items()), None)
