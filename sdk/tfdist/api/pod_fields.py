"""Fields of the container `tensorflow` and its pod, which the job and each role have.

Only what the API server needs to merge and bound them is typed here; `tfdist.podspec` checks the rest against
Kubernetes' own schema.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from tfdist.api import patterns
from tfdist.api.base import OPEN_OBJECT, ApiModel, CrossFieldRule, OpenObject, list_map
from tfdist.api.scalars import Boolean, Image, Name, QualifiedName, Quantity, Text, distinct
from tfdist.api.template import PodTemplate

GENERATED_VARIABLES: Final = ("TF_CONFIG", "TFDIST_JOB")
"""Environment variables that the controller sets in every replica."""
GENERATED_VARIABLE_MESSAGE: Final = f"{' and '.join(GENERATED_VARIABLES)} are reserved; remove the variable"


class EnvVar(ApiModel):
    """An environment variable of the container `tensorflow`, as in a pod."""

    cross_field_rules = (
        CrossFieldRule(
            " && ".join(f"self.name != '{name}'" for name in GENERATED_VARIABLES),
            GENERATED_VARIABLE_MESSAGE,
            ".name",
            lambda self: self.name not in GENERATED_VARIABLES,
        ),
        CrossFieldRule(
            "!has(self.value) || !has(self.valueFrom)",
            "value and valueFrom are mutually exclusive; keep one of them",
            "",
            lambda self: self.value is None or self.value_from is None,
        ),
    )

    name: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=patterns.VARIABLE)]
    """Name of the variable. `TF_CONFIG` and `TFDIST_JOB` are reserved."""
    value: Annotated[str, StringConstraints(max_length=32768)] | None = None
    """Value of the variable, a string: quote numbers and booleans."""
    value_from: OpenObject | None = None
    """Source of the value, as in a pod: `secretKeyRef`, `configMapKeyRef`, `fieldRef` or `resourceFieldRef`. Cannot be
    used if `value` is set."""


class EnvFrom(ApiModel):
    """A ConfigMap or Secret whose keys become environment variables, as in a pod."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    prefix: Name | None = None
    """Prefix of the names of the variables."""


class Volume(ApiModel):
    """A volume, as in a pod: a name and exactly one source."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    name: Annotated[str, StringConstraints(max_length=63, pattern=patterns.DNS_LABEL)]
    """Name of the volume, a DNS label; `volumeMounts` refers to it."""


class VolumeMount(ApiModel):
    """A volume mount of the container `tensorflow`, as in a pod."""

    cross_field_rules = (
        CrossFieldRule(
            "!has(self.subPath) || !has(self.subPathExpr)",
            "subPath and subPathExpr are mutually exclusive; keep one of them",
            ".subPathExpr",
            lambda self: self.sub_path is None or self.sub_path_expr is None,
        ),
    )

    name: Name
    """Name of the volume."""
    mount_path: Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=patterns.MOUNT_PATH)]
    """Path in the container; must not contain `:`."""
    sub_path: Text | None = None
    """Path within the volume to mount. Defaults to the root of the volume."""
    sub_path_expr: Text | None = None
    """Path within the volume to mount, with references `$(NAME)` to variables of the container. Cannot be used if
    `subPath` is set."""
    read_only: Boolean | None = None
    """Mount the volume read-only. Defaults to false."""
    mount_propagation: Literal["None", "HostToContainer", "Bidirectional"] | None = None
    """Propagation of mounts between host and container, as in a pod. Defaults to `None`."""
    recursive_read_only: Literal["Disabled", "IfPossible", "Enabled"] | None = None
    """Whether read-only mounts are read-only recursively, as in a pod. Defaults to `Disabled`."""


class ResourceClaim(ApiModel):
    """A reference to a resource claim of the pod, as in a container."""

    name: Name
    """Name of an entry of `template.spec.resourceClaims`."""
    request: Name | None = None
    """Name of one request of the claim. Defaults to all requests."""


class ResourceRequirements(ApiModel):
    """Compute resources, as in a container; they merge by resource name."""

    requests: dict[QualifiedName, Quantity] | None = Field(default=None, max_length=32)
    """Amount of each resource to reserve on a node, such as `cpu: 2` or `memory: 8Gi`. Defaults to `limits`."""
    limits: dict[QualifiedName, Quantity] | None = Field(default=None, max_length=32)
    """Largest amount of each resource. CPU beyond it is throttled; a container that exceeds its memory limit is killed.
    GPUs are set here: `nvidia.com/gpu: 1`."""
    claims: Annotated[
        list[ResourceClaim] | None, Field(max_length=32, json_schema_extra=list_map("name")), distinct("name")
    ] = None
    """Resource claims that the container uses, for dynamic resource allocation."""


class PodFields(ApiModel):
    """Fields of the container `tensorflow` and its pod.

    Four levels are merged, lowest first: the job's fields, the job's `template`, the role's fields and the role's
    `template`. A higher level overrides a lower one. Objects merge field by field. Lists merge by key, as in
    `kubectl apply`: containers, init containers, volumes and variables by name, mounts by path, ports by number. Other
    lists, such as `command`, `args`, `envFrom` and tolerations, are replaced as a whole.
    """

    image: Image | None = None
    """Container image. Defaults to the trainer image of the installation."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """Image pull policy: `Always`, `IfNotPresent` or `Never`. Defaults to `Always` for the tag `latest`, otherwise to
    `IfNotPresent`."""
    command: Annotated[list[Text] | None, Field(min_length=1, max_length=256)] = None
    """Entrypoint array, not executed in a shell. Defaults to the entrypoint of `image`, or to the bundled trainer,
    which runs `training`, if `image` is not set."""
    args: Annotated[list[Text] | None, Field(max_length=256)] = None
    """Arguments of the entrypoint. Defaults to the image's CMD."""
    working_dir: Text | None = None
    """Working directory of the container. Defaults to the image's."""
    env: Annotated[list[EnvVar] | None, Field(max_length=256, json_schema_extra=list_map("name")), distinct("name")] = (
        None
    )
    """Environment variables. A role's variables are added to the job's and replace variables with the same name."""
    env_from: Annotated[list[EnvFrom] | None, Field(max_length=64)] = None
    """ConfigMaps and Secrets whose keys become environment variables. A role's list replaces the job's."""
    resources: ResourceRequirements | None = None
    """Compute resources of the container `tensorflow` in every pod. Defaults to the values of the namespace's
    LimitRange, if any."""
    volumes: Annotated[
        list[Volume] | None, Field(max_length=64, json_schema_extra=list_map("name")), distinct("name")
    ] = None
    """Volumes of the pod. A role's volumes are added to the job's and replace volumes with the same name."""
    volume_mounts: Annotated[
        list[VolumeMount] | None,
        Field(max_length=64, json_schema_extra=list_map("mountPath")),
        distinct("mount_path"),
    ] = None
    """Volume mounts of the container. A role's mounts are added to the job's and replace mounts with the same path."""
    template: PodTemplate | None = None
    """Pod template for all other fields, such as node selectors, tolerations and sidecars. It overrides the fields of
    its own level."""
