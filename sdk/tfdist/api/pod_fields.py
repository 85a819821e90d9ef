"""The short forms of a container or pod that a job and each of its roles share.

Their content is Kubernetes' own: only what the API server needs to merge and bound them is typed here, and the
rest is checked against Kubernetes' own schema (`tfdist.podspec`).
"""

from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints

from tfdist.api import patterns
from tfdist.api.base import OPEN_OBJECT, ApiModel, Check, list_map
from tfdist.api.scalars import Boolean, Image, Name, QualifiedName, Quantity, Text, distinct
from tfdist.api.template import PodTemplate

GENERATED_VARIABLES: Final = ("TF_CONFIG", "TFDIST_JOB")
"""Environment variables that the controller writes for each replica."""


class EnvVar(ApiModel):
    """An environment variable of the container `tensorflow`, as in a pod."""

    checks = (
        Check(
            "self.name != 'TF_CONFIG' && self.name != 'TFDIST_JOB'",
            "TF_CONFIG and TFDIST_JOB are generated for each replica; remove the variable",
            ".name",
            lambda self: self.name not in GENERATED_VARIABLES,
        ),
        Check(
            "!has(self.value) || !has(self.valueFrom)",
            "a variable has one source: keep value or valueFrom",
            "",
            lambda self: self.value is None or self.value_from is None,
        ),
    )

    name: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=patterns.VARIABLE)]
    """Name of the variable; `TF_CONFIG` and `TFDIST_JOB` are the controller's."""
    value: Annotated[str, StringConstraints(max_length=32768)] | None = None
    """Value, as text: write numbers and `true` in quotes."""
    value_from: Annotated[dict[str, Any] | None, Field(json_schema_extra=OPEN_OBJECT)] = None
    """Where the value comes from instead, as in a pod: `secretKeyRef`, `configMapKeyRef`, `fieldRef`, ..."""


class EnvFrom(ApiModel):
    """A ConfigMap or Secret all of whose keys become variables, as in a pod."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    prefix: Name | None = None
    """Put before each key."""


class Volume(ApiModel):
    """A volume, as in a pod: a name and one source."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    name: Annotated[str, StringConstraints(max_length=63, pattern=patterns.DNS_LABEL)]
    """Name that `volumeMounts` refers to, a DNS label."""


class VolumeMount(ApiModel):
    """A mount in the container `tensorflow`, as in a pod."""

    checks = (
        Check(
            "!has(self.subPath) || !has(self.subPathExpr)",
            "a mount has one path inside the volume: keep subPath or subPathExpr",
            ".subPathExpr",
            lambda self: self.sub_path is None or self.sub_path_expr is None,
        ),
    )

    name: Name
    """Name of the volume."""
    mount_path: Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.MOUNT_PATH)]
    """Absolute path in the container."""
    sub_path: Text | None = None
    """Path inside the volume."""
    sub_path_expr: Text | None = None
    """Path inside the volume in which `$(NAME)` stands for a variable of the container."""
    read_only: Boolean | None = None
    """Mount without the right to write."""
    mount_propagation: Literal["None", "HostToContainer", "Bidirectional"] | None = None
    """Whether mounts made later are seen, as in a container."""
    recursive_read_only: Literal["Disabled", "IfPossible", "Enabled"] | None = None
    """Whether mounts below are read-only too, as in a container."""


class ResourceClaim(ApiModel):
    """A device that the pod has claimed and this container uses, as in a container."""

    name: Name
    """Name of the pod's resource claim, see `template.spec.resourceClaims`."""
    request: Name | None = None
    """One request of the claim; without it all."""


class Resources(ApiModel):
    """Requests and limits, as in a container; each resource merges by its name."""

    requests: dict[QualifiedName, Quantity] | None = Field(default=None, max_length=32)
    """Least amount of each resource."""
    limits: dict[QualifiedName, Quantity] | None = Field(default=None, max_length=32)
    """Most of each resource; GPUs go here, for example `nvidia.com/gpu: 1`."""
    claims: Annotated[
        list[ResourceClaim] | None, Field(max_length=32, json_schema_extra=list_map("name")), distinct("name")
    ] = None
    """Claimed devices."""


class PodFields(ApiModel):
    """Short forms for the container `tensorflow` and its pod."""

    image: Image | None = None
    """Image of the container; without it the controller's own trainer image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled, as in a container."""
    command: Annotated[list[Text] | None, Field(min_length=1, max_length=256)] = None
    """Command; without it and with the trainer image the bundled trainer runs `training`."""
    args: Annotated[list[Text] | None, Field(max_length=256)] = None
    """Arguments of the command."""
    working_dir: Text | None = None
    """Working directory."""
    env: Annotated[list[EnvVar] | None, Field(max_length=256, json_schema_extra=list_map("name")), distinct("name")] = (
        None
    )
    """Environment variables, merged by name."""
    env_from: Annotated[list[EnvFrom] | None, Field(max_length=64)] = None
    """ConfigMaps and Secrets all of whose keys become variables; a role's list replaces the job's."""
    resources: Resources | None = None
    """Requests and limits of the container."""
    volumes: Annotated[
        list[Volume] | None, Field(max_length=64, json_schema_extra=list_map("name")), distinct("name")
    ] = None
    """Volumes of the pod, merged by name."""
    volume_mounts: Annotated[
        list[VolumeMount] | None,
        Field(max_length=64, json_schema_extra=list_map("mountPath")),
        distinct("mount_path"),
    ] = None
    """Mounts of the container, merged by path."""
    template: PodTemplate | None = None
    """Any other field of the pod; goes before the short forms of the same level."""
