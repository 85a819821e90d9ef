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
    """Text put before each key to make the variable's name."""


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
    """Folder or file inside the volume to mount; without it the whole volume."""
    sub_path_expr: Text | None = None
    """Path inside the volume in which `$(NAME)` stands for a variable of the container."""
    read_only: Boolean | None = None
    """Mount without the right to write; without it writable."""
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
    """Amount of each resource that a node must have free, such as `cpu: 2` or `memory: 8Gi`; without it the limit."""
    limits: dict[QualifiedName, Quantity] | None = Field(default=None, max_length=32)
    """Most of each resource: more CPU is withheld, more memory ends the replica. GPUs go here: `nvidia.com/gpu: 1`."""
    claims: Annotated[
        list[ResourceClaim] | None, Field(max_length=32, json_schema_extra=list_map("name")), distinct("name")
    ] = None
    """Devices that the pod has claimed (dynamic resource allocation) and the container uses."""


class PodFields(ApiModel):
    """Short forms for the container `tensorflow` and its pod.

    Lowest first come the job's short forms, the job's `template`, the role's short forms, and the role's `template`.
    What a higher level says wins, and what it does not say stays. Objects merge field by field. Lists merge by key,
    as `kubectl apply` does: containers, init containers, volumes and variables by name, mounts by path, ports by
    number. Other lists, such as `command`, `args`, `envFrom` and tolerations, are replaced as a whole.
    """

    image: Image | None = None
    """Image of the container; without it the trainer image that the controller was installed with."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled; without it always for the tag `latest`, else only where the node lacks it."""
    command: Annotated[list[Text] | None, Field(min_length=1, max_length=256)] = None
    """Command, without a shell. Without it the image's own runs, or, where no `image` is named either, the bundled
    trainer runs `training`."""
    args: Annotated[list[Text] | None, Field(max_length=256)] = None
    """Arguments of the command; without it the image's own."""
    working_dir: Text | None = None
    """Working directory of the command; without it the image's own."""
    env: Annotated[list[EnvVar] | None, Field(max_length=256, json_schema_extra=list_map("name")), distinct("name")] = (
        None
    )
    """Environment variables, as in a pod; a role's are added to the job's, and replace those of the same name."""
    env_from: Annotated[list[EnvFrom] | None, Field(max_length=64)] = None
    """ConfigMaps and Secrets all of whose keys become variables; a role's list replaces the job's as a whole."""
    resources: Resources | None = None
    """Requests and limits of the container `tensorflow` in each pod; without it none, and the namespace's LimitRange
    decides."""
    volumes: Annotated[
        list[Volume] | None, Field(max_length=64, json_schema_extra=list_map("name")), distinct("name")
    ] = None
    """Volumes of the pod: a name and one source each; a role's are added to the job's, and replace those of the same
    name."""
    volume_mounts: Annotated[
        list[VolumeMount] | None,
        Field(max_length=64, json_schema_extra=list_map("mountPath")),
        distinct("mount_path"),
    ] = None
    """Where the container finds volumes; a role's are added to the job's, and replace those of the same path."""
    template: PodTemplate | None = None
    """Any other field of the pod, such as node selectors, tolerations or sidecars; where it and a short form of the
    same level say something of one field, the template wins."""
