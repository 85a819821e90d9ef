"""The pod template of a job or role: everything of a pod that has no short form.

Its content is Kubernetes' own and far larger than the rest of the resource, so the schema holds what identifies
its parts and leaves them open; `tfdist validate` and the controller check every field of it (ADR 7).
"""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from tfdist.api import patterns
from tfdist.api.base import OPEN_OBJECT, ApiModel, list_map
from tfdist.api.scalars import Name

Labels = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=317)],
        Annotated[str, StringConstraints(max_length=63, pattern=patterns.LABEL_VALUE)],
    ],
    Field(max_length=64),
]
Annotations = Annotated[
    dict[
        Annotated[str, StringConstraints(min_length=1, max_length=317)],
        Annotated[str, StringConstraints(max_length=65536)],
    ],
    Field(max_length=64),
]


class NamedObject(ApiModel):
    """A part of a pod that is told apart by its name."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    name: Name
    """Name by which it is merged."""


class TemplateMeta(ApiModel):
    """Labels and annotations of the pods."""

    labels: Labels | None = None
    """Labels of the pods beside those that the controller sets; `tfdist.dev/` is its own."""
    annotations: Annotations | None = None
    """Annotations of the pods, for example for a service mesh or a queue."""


def _parts() -> Any:
    return Field(default=None, max_length=64, json_schema_extra=list_map("name"))


class TemplateSpec(ApiModel):
    """The specification of a pod, as in Kubernetes; lists merge by key as `kubectl apply` does."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    containers: list[NamedObject] | None = _parts()
    """Containers by name; `tensorflow` is the one that the short forms describe, others run beside it."""
    init_containers: list[NamedObject] | None = _parts()
    """Containers that run before, by name."""
    volumes: list[NamedObject] | None = _parts()
    """Volumes by name, as `volumes` of the job."""


class PodTemplate(ApiModel):
    """What no short form says, as in a pod; any field of Kubernetes' PodTemplateSpec."""

    metadata: TemplateMeta | None = None
    """Labels and annotations of the pods."""
    spec: TemplateSpec | None = None
    """The pod's specification; `restartPolicy`, `hostname` and `subdomain` are the controller's."""
