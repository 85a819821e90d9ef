"""The short forms of a container or pod that a job and each of its roles share.

Their content is Kubernetes' own. Only what the list is keyed by is typed here; the API server checks the
rest when the controller creates the pod, and its answer is shown in the job's status.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tfdist.api.base import OPEN_OBJECT, ApiModel, list_map, rules
from tfdist.api.base import cel as rule

Name = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Text = Annotated[str, StringConstraints(max_length=4096)]


class EnvVar(ApiModel):
    """An environment variable of the container `tensorflow`, as in a pod."""

    model_config = {
        "json_schema_extra": rules(
            rule(
                "self.name != 'TF_CONFIG' && self.name != 'TFDIST_JOB'",
                "TF_CONFIG and TFDIST_JOB are generated for each replica; remove them",
                ".name",
            )
        )
    }

    name: Name
    """Name of the variable; TF_CONFIG and TFDIST_JOB are the controller's."""
    value: Annotated[str, StringConstraints(max_length=32768)] | None = None
    """Value, as text."""
    value_from: Annotated[dict[str, Any] | None, Field(json_schema_extra=OPEN_OBJECT)] = None
    """Where the value comes from instead, as in a pod."""


class Volume(ApiModel):
    """A volume, as in a pod: a name and one source."""

    model_config = {"extra": "allow", "json_schema_extra": OPEN_OBJECT}

    name: Name
    """Name that `volumeMounts` refers to."""


class VolumeMount(ApiModel):
    """A mount in the container `tensorflow`, as in a pod."""

    name: Name
    """Name of the volume."""
    mount_path: Text
    """Absolute path in the container."""
    sub_path: Text | None = None
    """Path inside the volume."""
    read_only: bool | None = None
    """Mount without the right to write."""


class Resources(ApiModel):
    """Requests and limits, as in a container."""

    requests: dict[Name, int | str] | None = Field(default=None, max_length=32)
    """Least amount of each resource."""
    limits: dict[Name, int | str] | None = Field(default=None, max_length=32)
    """Most of each resource; GPUs go here, for example `nvidia.com/gpu: 1`."""


class PodFields(ApiModel):
    """Short forms for the container `tensorflow` and its pod."""

    image: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    """Image of the container; without it the controller's own trainer image."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled, as in a container."""
    command: Annotated[list[Text] | None, Field(max_length=256)] = None
    """Command; without it the bundled trainer runs `training`."""
    args: Annotated[list[Text] | None, Field(max_length=256)] = None
    """Arguments of the command."""
    working_dir: Text | None = None
    """Working directory."""
    env: Annotated[list[EnvVar] | None, Field(max_length=256, json_schema_extra=list_map("name"))] = None
    """Environment variables, merged by name."""
    resources: Resources | None = None
    """Requests and limits of the container."""
    volumes: Annotated[list[Volume] | None, Field(max_length=64, json_schema_extra=list_map("name"))] = None
    """Volumes of the pod, merged by name."""
    volume_mounts: Annotated[
        list[VolumeMount] | None, Field(max_length=64, json_schema_extra=list_map("mountPath"))
    ] = None
    """Mounts of the container, merged by path."""
