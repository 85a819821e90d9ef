"""Validates the parts of a manifest with types of Kubernetes: templates, volumes, sources of variables.

The schema leaves them open, because they are far larger than the rest of the resource (ADR 7); here every field is
compared with the schema of Kubernetes. The input is the raw manifest, which may have other errors.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import messages, podspec
from tfdist.api.pod_fields import GENERATED_VARIABLE_MESSAGE, GENERATED_VARIABLES
from tfdist.contract import MAIN_CONTAINER
from tfdist.render.names import OWN_LABEL_PREFIX
from tfdist.render.template import RESERVED_PREFIX
from tfdist.validation.errors import FieldError
from tfdist.validation.metadata import label_problems

ROLES: Final = ("chief", "worker", "ps", "evaluator")
_SET_BY_CONTROLLER: Final = {
    "hostname": "the controller sets it to the name in TF_CONFIG; remove it",
    "restartPolicy": "the controller restarts replicas; remove it and see failurePolicy",
    "subdomain": "the controller sets it to the job's Service; remove it",
    "activeDeadlineSeconds": "the kubelet would end pods of a running job; use runPolicy.activeDeadlineSeconds",
    "ephemeralContainers": "the API server adds them to running pods only; use kubectl debug",
}


def template_problems(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the errors of the parts of a raw specification that the schema leaves open."""
    yield from _level(spec, "spec")
    for role in ROLES:
        if isinstance(spec.get(role), dict):
            yield from _level(spec[role], f"spec.{role}")
    checkpoint = spec.get("checkpoint")
    if isinstance(checkpoint, dict) and isinstance(checkpoint.get("volume"), dict):
        yield from _volume_source(checkpoint["volume"], "spec.checkpoint.volume")


def _level(fields: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield the errors of the pod fields and the template of the job or of one role."""
    for i, volume in enumerate(_objects(fields, "volumes")):
        yield from _schema_problems(volume, "Volume", f"{path}.volumes[{i}]")
        yield from _reserved(volume, f"{path}.volumes[{i}]")
    for i, source in enumerate(_objects(fields, "envFrom")):
        yield from _schema_problems(source, "EnvFromSource", f"{path}.envFrom[{i}]")
    for i, variable in enumerate(_objects(fields, "env")):
        if "valueFrom" in variable:
            yield from _schema_problems(variable["valueFrom"], "EnvVarSource", f"{path}.env[{i}].valueFrom")
    template = fields.get("template")
    if isinstance(template, dict):
        yield from _schema_problems(template, "PodTemplateSpec", f"{path}.template")
        yield from _set_by_controller(template, f"{path}.template")


def _schema_problems(value: Any, kind: str, path: str) -> Iterator[FieldError]:
    for field_path, message in podspec.problems(value, kind, path, podspec.OVERLAY):
        yield FieldError(field_path, message)


def _volume_source(source: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if "name" in source:
        yield FieldError(f"{path}.name", messages.forbidden("the controller names this volume; remove name"))
        return
    yield from _schema_problems({"name": "checkpoint", **source}, "Volume", path)


def _set_by_controller(template: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    """Yield fields that a template must not set, because the controller does."""
    meta, spec = template.get("metadata"), template.get("spec")
    if isinstance(meta, dict):
        yield from _metadata(meta, f"{path}.metadata")
    if not isinstance(spec, dict):
        return
    for name in _SET_BY_CONTROLLER.keys() & spec.keys():
        yield FieldError(f"{path}.spec.{name}", messages.forbidden(_SET_BY_CONTROLLER[name]))
    for i, volume in enumerate(_objects(spec, "volumes")):
        yield from _reserved(volume, f"{path}.spec.volumes[{i}]")
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(_objects(spec, kind)):
            yield from _container(container, f"{path}.spec.{kind}[{i}]")


def _metadata(meta: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    for name in sorted(meta.keys() - {"labels", "annotations"}, key=str):
        text = messages.forbidden("a template has only labels and annotations; remove it")
        yield FieldError(messages.child_path(path, name), text)
    yield from label_problems(meta, path)
    labels = meta.get("labels")
    for key in labels if isinstance(labels, dict) else ():
        if isinstance(key, str) and key.startswith(OWN_LABEL_PREFIX):
            text = messages.forbidden(f"the prefix {OWN_LABEL_PREFIX} is reserved; use another label")
            yield FieldError(messages.child_path(f"{path}.labels", key), text)


def _container(container: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    if container.get("name") != MAIN_CONTAINER:
        yield from _reserved(container, path)
        return
    for i, variable in enumerate(_objects(container, "env")):
        if variable.get("name") in GENERATED_VARIABLES:
            yield FieldError(f"{path}.env[{i}].name", GENERATED_VARIABLE_MESSAGE)


def _reserved(part: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    name = part.get("name")
    if isinstance(name, str) and name.startswith(RESERVED_PREFIX):
        text = messages.invalid(name, f"the prefix {RESERVED_PREFIX} is reserved; use another name")
        yield FieldError(f"{path}.name", text)


def _objects(parent: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects; empty if an item is not an object, which the schema reports."""
    items = parent.get(name)
    return items if isinstance(items, list) and all(isinstance(i, dict) for i in items) else []
