"""Finds where a manifest says what a merged pod has: the problem is told at that line, not at the pod's."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tfdist.api.pod_fields import PodFields
from tfdist.api.v1 import TFDistJob
from tfdist.contract import MAIN_CONTAINER, Role

_KINDS: Final = ("containers", "initContainers")


def origin(job: TFDistJob, role: Role, container: str, find: Callable[[dict[str, Any]], str | None]) -> str:
    """Return the path of what `find` finds in the highest level that says it of `container`.

    Args:
        job: the job.
        role: whose pod it is about.
        container: name of the container.
        find: gets a container's fields in Kubernetes' words, and returns the path of a field in it, such as
            `.volumeMounts[0].name`, or None where that level does not say it.
    """
    own = job.spec.fields_of(role)
    name = Role.WORKER if role is Role.EVALUATION else role
    levels = [*(_level(own, f"spec.{name}", container) if own else ()), *_level(job.spec, "spec", container)]
    for path, fields in levels:
        found = find(fields)
        if found is not None:
            return f"{path}{found}"
    return "spec"


def _level(fields: PodFields, path: str, container: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield where one level speaks of the container, and what it says there, the highest first."""
    template = fields.template
    if template is not None and template.spec is not None:
        spec = template.spec.model_dump(by_alias=True, exclude_none=True)
        for kind in _KINDS:
            for i, each in enumerate(spec.get(kind, ())):
                if each["name"] == container:
                    yield f"{path}.template.spec.{kind}[{i}]", each
    if container == MAIN_CONTAINER:
        yield path, fields.model_dump(by_alias=True, exclude_none=True)
