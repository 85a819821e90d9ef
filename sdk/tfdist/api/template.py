"""The pod template of a job or role, for every pod field that is not a field of the job.

The schema describes only what the API server needs to merge lists: the content is Kubernetes' PodTemplateSpec, far
larger than the rest of the resource. `tfdist validate` and the controller check all of it (ADR 7).
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
    """An item of a pod's list, merged by name."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    name: Name
    """Name of the item; lists merge by it."""


class TemplateMeta(ApiModel):
    """Labels and annotations of the pods."""

    labels: Labels | None = None
    """Labels to add to the pods. The prefix `tfdist.dev/` is reserved."""
    annotations: Annotations | None = None
    """Annotations to add to the pods."""


def _parts() -> Any:
    return Field(default=None, max_length=64, json_schema_extra=list_map("name"))


class TemplateSpec(ApiModel):
    """PodSpec of Kubernetes; lists merge by key as in `kubectl apply`."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    containers: list[NamedObject] | None = _parts()
    """Containers by name. Fields of the container `tensorflow` are added to those above; other names are sidecars."""
    init_containers: list[NamedObject] | None = _parts()
    """Init containers by name."""
    volumes: list[NamedObject] | None = _parts()
    """Volumes by name, merged with `volumes` of the job."""


class PodTemplate(ApiModel):
    """PodTemplateSpec of Kubernetes, for every field that has no field of its own in the job."""

    metadata: TemplateMeta | None = None
    """Labels and annotations of the pods."""
    spec: TemplateSpec | None = None
    """Specification of the pods. `restartPolicy`, `hostname`, `subdomain` and `activeDeadlineSeconds` must not be
    set."""
