"""The pod template of a role, merged from all levels of the specification.

Lowest first: the command of `training.script`, the job's pod fields, its `template`, the role's pod fields, the role's
`template`. Maps merge, lists merge by key as `kubectl apply` does (`tfdist.podspec`). `pod` adds the fields that the
controller sets.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import contract
from tfdist.api.pod_fields import PodFields
from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.contract import Role
from tfdist.podspec import merge, merge_all
from tfdist.render.command import DEFAULT_COMMAND, script_command
from tfdist.render.per_job import PerJob

CHECKPOINT_VOLUME: Final = "tfdist-checkpoint"
RESERVED_PREFIX: Final = "tfdist-"
"""Prefix of the volumes, containers and ports of the controller; a job may set the port `tfdist-port`."""

_BUNDLED_TRAINER: Final = "tfdist_trainer"
"""Part of every command that starts the bundled trainer."""
_POD_LEVEL_FIELDS: Final = frozenset({"volumes"})
_STARTS_TRAINER: Final[PerJob[dict[Role, tuple[Mapping[str, Any], bool]]]] = PerJob()
_POD_FIELDS: Final = set(PodFields.model_fields) - {"template"}


def role_template(job: TFDistJob, role: Role) -> dict[str, Any]:
    """Return the PodTemplateSpec of a role as the job requests it, without defaults."""
    result = template_without_script(job, role)
    command = script_command(job.spec.training, own_image="image" in main_container(result))
    if not command:
        return result
    container = {"name": contract.MAIN_CONTAINER, "command": command}
    return merge({"spec": {"containers": [container]}}, result, "PodTemplateSpec")


def template_without_script(job: TFDistJob, role: Role) -> dict[str, Any]:
    """Return the PodTemplateSpec of a role as the job writes it, without the command of `training.script`."""
    spec = job.spec
    role_fields = spec.fields_of(role)
    layers = [_checkpoint_volume(spec), *_layers(spec), *(_layers(role_fields) if role_fields else ())]
    return merge_all(layers, "PodTemplateSpec")


def main_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container `tensorflow` of a template; empty if the template has none."""
    containers = template.get("spec", {}).get("containers", ())
    return next((c for c in containers if c["name"] == contract.MAIN_CONTAINER), {})


def all_containers(template: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the containers of a template, the init containers first."""
    spec = template.get("spec", {})
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def runs_bundled_trainer(template: Mapping[str, Any]) -> bool:
    """Return whether a role runs the trainer of the installation's image, by its template without defaults."""
    main = main_container(template)
    command = main.get("command")
    return "image" not in main and (command is None or any(_BUNDLED_TRAINER in argument for argument in command))


def starts_trainer(job: TFDistJob, role: Role, pod_defaults: Mapping[str, Any]) -> bool:
    """Return whether the command of a role starts the trainer; it is unknown for a user's image without a command."""
    known = _STARTS_TRAINER.get(job, lambda _: {})
    # The defaults of the pods are the same as long as the controller runs; a test has others.
    if role not in known or known[role][0] is not pod_defaults:
        known[role] = pod_defaults, _starts_trainer(job, role, pod_defaults)
    return known[role][1]


def _starts_trainer(job: TFDistJob, role: Role, pod_defaults: Mapping[str, Any]) -> bool:
    requested = role_template(job, role)
    main = main_container(merge(pod_defaults, requested, "PodTemplateSpec"))
    default = () if "image" in main_container(requested) else DEFAULT_COMMAND
    command = (*main.get("command", default), *main.get("args", ()))
    return job.spec.runs_program and any(_BUNDLED_TRAINER in part for part in command)


def tensorflow_port(template: Mapping[str, Any]) -> int:
    """Return the port of TensorFlow's server: the one named `tfdist-port`, by default 2222."""
    ports = main_container(template).get("ports", ())
    return next((p["containerPort"] for p in ports if p.get("name") == contract.TF_PORT_NAME), contract.TF_PORT)


def mount_path(directory: str) -> str:
    """Return the mount path of `checkpoint.volume`: the part of `directory` before its first placeholder."""
    prefix = directory.partition("{")[0]
    return prefix if prefix == directory else prefix.rpartition("/")[0] or "/"


def _layers(fields: PodFields) -> list[dict[str, Any]]:
    """Return the pod fields and the template of one level, lowest first."""
    layers = []
    values = fields.model_dump(mode="json", by_alias=True, exclude_none=True, include=_POD_FIELDS)
    if values:
        pod_level = {k: values.pop(k) for k in _POD_LEVEL_FIELDS & values.keys()}
        containers = {"containers": [{"name": contract.MAIN_CONTAINER} | values]} if values else {}
        layers.append({"spec": containers | pod_level})
    if fields.template is not None:
        layers.append(fields.template.model_dump(mode="json", by_alias=True, exclude_none=True))
    return layers


def _checkpoint_volume(spec: TFDistJobSpec) -> dict[str, Any]:
    checkpoint = spec.checkpoint
    if checkpoint is None or checkpoint.volume is None:
        return {}
    mount = {"name": CHECKPOINT_VOLUME, "mountPath": mount_path(checkpoint.directory)}
    return {
        "spec": {
            "containers": [{"name": contract.MAIN_CONTAINER, "volumeMounts": [mount]}],
            "volumes": [{"name": CHECKPOINT_VOLUME} | checkpoint.volume],
        }
    }
