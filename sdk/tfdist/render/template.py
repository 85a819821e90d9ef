"""The pod template that a job's author asks for in a role: short forms and templates of all levels, merged.

Lowest first: the job's short forms, its `template`, the role's short forms, the role's `template`. Maps merge,
lists merge by key as `kubectl apply` does (`tfdist.podspec`). The controller's own part is added in `pod`.
"""

from collections.abc import Mapping
from typing import Any, Final

from tfdist import contract
from tfdist.api.pod_fields import PodFields
from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.contract import Role
from tfdist.podspec import merge

CHECKPOINT_VOLUME: Final = "tfdist-checkpoint"
RESERVED_PREFIX: Final = "tfdist-"
"""Names of volumes, containers and ports of the controller's begin so; `tfdist-port` is the job's to set."""

_OF_POD: Final = frozenset({"volumes"})
_SHORT_FORMS: Final = set(PodFields.model_fields) - {"template"}


def role_template(job: TFDistJob, role: Role) -> dict[str, Any]:
    """Return the PodTemplateSpec of a role as its author wrote it, in the form of Kubernetes' API."""
    spec = job.spec
    own = spec.fields_of(role)
    layers = [*_layers(spec), *(_layers(own) if own else ())]
    result = _checkpoint_volume(spec)
    for layer in layers:
        result = merge(result, layer, "PodTemplateSpec")
    return result


def main_container(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the container `tensorflow` of a template; empty where the template does not speak of it."""
    containers = template.get("spec", {}).get("containers", ())
    return next((c for c in containers if c["name"] == contract.MAIN_CONTAINER), {})


def tensorflow_port(template: Mapping[str, Any]) -> int:
    """Return the port of TensorFlow's server: that named `tfdist-port`, or 2222."""
    ports = main_container(template).get("ports", ())
    return next((p["containerPort"] for p in ports if p.get("name") == contract.TF_PORT_NAME), contract.TF_PORT)


def mount_path(directory: str) -> str:
    """Return where `checkpoint.volume` is mounted: the part of `directory` before its first placeholder."""
    fixed = directory.partition("{")[0]
    return fixed if fixed == directory else fixed.rpartition("/")[0] or "/"


def _layers(fields: PodFields) -> list[dict[str, Any]]:
    """Return the short forms and the template of one level, lowest first."""
    layers = []
    short = fields.model_dump(mode="json", by_alias=True, exclude_none=True, include=_SHORT_FORMS)
    if short:
        of_pod = {k: short.pop(k) for k in _OF_POD & short.keys()}
        containers = {"containers": [{"name": contract.MAIN_CONTAINER} | short]} if short else {}
        layers.append({"spec": containers | of_pod})
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
