"""Checks what a manifest says in Kubernetes' own words: templates, volumes, sources of variables.

The schema leaves these open, for they are far larger than the rest of the resource (ADR 7); here every field of
them is held against Kubernetes' own description. Works on the raw manifest, whatever else is wrong with it.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist import podspec
from tfdist.api.pod_fields import GENERATED_VARIABLES
from tfdist.contract import MAIN_CONTAINER
from tfdist.render.names import OWN_LABEL_PREFIX
from tfdist.render.template import RESERVED_PREFIX
from tfdist.validation.metadata import label_problems
from tfdist.validation.problems import Problem
from tfdist.validation.wording import given

ROLES: Final = ("chief", "worker", "ps", "evaluator")
_OF_CONTROLLER: Final = {
    "hostname": "the controller names every replica's host, so that TF_CONFIG holds; remove it",
    "restartPolicy": "the controller restarts replicas, together where they must be; remove it, see failurePolicy",
    "subdomain": "the controller sets it, so that the replicas find each other; remove it",
    "activeDeadlineSeconds": "it would end pods behind the controller's back; use runPolicy.activeDeadlineSeconds",
}


def template_problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what is wrong with the parts of the raw specification that the schema leaves open."""
    yield from _level(spec, "spec")
    for role in ROLES:
        if isinstance(spec.get(role), dict):
            yield from _level(spec[role], f"spec.{role}")
    checkpoint = spec.get("checkpoint")
    if isinstance(checkpoint, dict) and isinstance(checkpoint.get("volume"), dict):
        yield from _volume_source(checkpoint["volume"], "spec.checkpoint.volume")


def _level(fields: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield the problems of the short forms and the template of the job or of one role."""
    for i, volume in enumerate(_objects(fields, "volumes")):
        yield from _checked(volume, "Volume", f"{path}.volumes[{i}]")
        yield from _reserved(volume, f"{path}.volumes[{i}]")
    for i, source in enumerate(_objects(fields, "envFrom")):
        yield from _checked(source, "EnvFromSource", f"{path}.envFrom[{i}]")
    for i, variable in enumerate(_objects(fields, "env")):
        if "valueFrom" in variable:
            yield from _checked(variable["valueFrom"], "EnvVarSource", f"{path}.env[{i}].valueFrom")
    template = fields.get("template")
    if isinstance(template, dict):
        yield from _checked(template, "PodTemplateSpec", f"{path}.template")
        yield from _of_controller(template, f"{path}.template")


def _checked(value: Any, kind: str, path: str) -> Iterator[Problem]:
    for where, message in podspec.problems(value, kind, path, podspec.OVERLAY):
        yield Problem(where, message)


def _volume_source(source: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if "name" in source:
        yield Problem(f"{path}.name", "the controller names this volume; remove the name, keep the source")
        return
    yield from _checked({"name": "checkpoint", **source}, "Volume", path)


def _of_controller(template: Mapping[str, Any], path: str) -> Iterator[Problem]:
    """Yield what a template may not set because the controller does."""
    meta, spec = template.get("metadata"), template.get("spec")
    if isinstance(meta, dict):
        yield from _metadata(meta, f"{path}.metadata")
    if not isinstance(spec, dict):
        return
    for name in _OF_CONTROLLER.keys() & spec.keys():
        yield Problem(f"{path}.spec.{name}", f"{_OF_CONTROLLER[name]}; got {given(spec[name])}")
    for i, volume in enumerate(_objects(spec, "volumes")):
        yield from _reserved(volume, f"{path}.spec.volumes[{i}]")
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(_objects(spec, kind)):
            yield from _container(container, f"{path}.spec.{kind}[{i}]")


def _metadata(meta: Mapping[str, Any], path: str) -> Iterator[Problem]:
    for name in sorted(meta.keys() - {"labels", "annotations"}, key=str):
        yield Problem(f"{path}.{name}", "a template has labels and annotations only; remove it")
    yield from label_problems(meta, path)
    labels = meta.get("labels")
    for key in labels if isinstance(labels, dict) else ():
        if isinstance(key, str) and key.startswith(OWN_LABEL_PREFIX):
            yield Problem(f"{path}.labels[{key!r}]", f"labels that begin with {OWN_LABEL_PREFIX} are the controller's")


def _container(container: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if container.get("name") != MAIN_CONTAINER:
        yield from _reserved(container, path)
        return
    for i, variable in enumerate(_objects(container, "env")):
        if variable.get("name") in GENERATED_VARIABLES:
            text = f"{variable['name']} is generated for each replica; remove the variable"
            yield Problem(f"{path}.env[{i}].name", text)


def _reserved(part: Mapping[str, Any], path: str) -> Iterator[Problem]:
    name = part.get("name")
    if isinstance(name, str) and name.startswith(RESERVED_PREFIX):
        text = f"names that begin with {RESERVED_PREFIX} are the controller's; choose another; got {given(name)}"
        yield Problem(f"{path}.name", text)


def _objects(parent: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list; what is no object is a mistake that the schema tells.

    A list with such an item is left out whole, so that every index is that of the manifest.
    """
    items = parent.get(name)
    return items if isinstance(items, list) and all(isinstance(i, dict) for i in items) else []
