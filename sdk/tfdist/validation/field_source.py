"""Finds the source of a merged pod's field in the manifest, so that an error names the field that the user wrote."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tfdist.api.pod_fields import PodFields
from tfdist.api.v1 import TFDistJob
from tfdist.contract import MAIN_CONTAINER, Role

INIT_CONTAINERS: Final = ("initContainers",)
_KINDS: Final = {"containers": "containers", "initContainers": "init_containers"}
"""Lists of containers of a pod, and the names of their fields in the model."""
_CONTAINER_FIELDS: Final = set(PodFields.model_fields) - {"template", "volumes"}
"""Fields of a level that belong to its container; the others are many times larger."""


def source_path(
    job: TFDistJob,
    role: Role,
    container: str,
    find: Callable[[dict[str, Any]], str | None],
    kinds: Iterable[str] = tuple(_KINDS),
) -> str:
    """Return the path of a field of `container` in the highest level of the manifest that sets it.

    Args:
        job: the job.
        role: role of the pod.
        container: name of the container.
        find: gets the container of one level as in Kubernetes, and returns the path of the field in it, such as
            `.volumeMounts[0].name`, or None if that level does not set it.
        kinds: lists of the pod in which to search the container.
    """
    role_fields = job.spec.fields_of(role)
    name = Role.WORKER if role is Role.EVALUATION else role
    levels = [*(_level(role_fields, f"spec.{name}", container, kinds) if role_fields else ())]
    levels += _level(job.spec, "spec", container, kinds)
    for path, fields in levels:
        suffix = find(fields)
        if suffix is not None:
            return f"{path}{suffix}"
    return "spec"


def pod_field_path(job: TFDistJob, role: Role, name: str) -> str:
    """Return the path of a pod field in the highest level that sets it, or `spec` if the installation sets it."""
    return next((f"{path}.template.spec.{name}" for path, _ in _levels_with(job, role, name)), "spec")


def pod_field(job: TFDistJob, role: Role, name: str) -> Any:
    """Return the value of a scalar pod field as the job sets it; None if it does not."""
    return next((value for _, value in _levels_with(job, role, name)), None)


def _levels_with(job: TFDistJob, role: Role, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the path of each level that sets a pod field, with its value, highest first."""
    role_fields: PodFields | None = job.spec.fields_of(role)
    title = Role.WORKER if role is Role.EVALUATION else role
    for path, fields in ((f"spec.{title}", role_fields), ("spec", job.spec)):
        template = fields.template if fields else None
        if template and template.spec and name in (template.spec.model_extra or {}):
            yield path, (template.spec.model_extra or {})[name]


def _level(fields: PodFields, path: str, container: str, kinds: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the paths of one level that set fields of the container, each with these fields, highest first."""
    spec = fields.template.spec if fields.template else None
    for kind in kinds if spec else ():
        for i, item in enumerate(getattr(spec, _KINDS[kind]) or ()):
            if item.name == container:
                yield f"{path}.template.spec.{kind}[{i}]", {"name": item.name} | (item.model_extra or {})
    if container == MAIN_CONTAINER and kinds is not INIT_CONTAINERS:
        yield path, fields.model_dump(by_alias=True, exclude_none=True, include=_CONTAINER_FIELDS)
