"""Converts the pod template of a replica type to the fields of a role: short forms where possible, then `template`.

A field of the container `tensorflow` goes as a whole into the short form or into the template, so that the merged pod
equals the original whatever is later hoisted to the job.
"""

from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from tfdist.api.pod_fields import PodFields
from tfdist.contract import JOB_ENV, TF_CONFIG_ENV, TF_PORT, TF_PORT_NAME
from tfdist.convert.replicas import Replicas
from tfdist.convert.result import AddNote, Json
from tfdist.convert.tfjob import MAIN_CONTAINER, PORT_NAME

CONTAINER_SHORT_FORMS: Final = (
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "workingDir",
    "env",
    "envFrom",
    "resources",
    "volumeMounts",
)
POD_SHORT_FORMS: Final = ("volumes",)

_CONTROLLERS_OWN: Final = {
    "restartPolicy": "dropped: TFDist decides about restarts; the training-operator ignored it too",
    "hostname": "dropped: TFDist sets the host name to the name of the replica, such as worker-0",
    "subdomain": "dropped: TFDist sets it to the job's name, for the replicas' addresses",
}
_PROBES: Final = ("startupProbe", "readinessProbe", "livenessProbe")
_HOOKS: Final = ("postStart", "preStop")
_RESTART_CONTAINER: Final = "RestartContainer"
_OWN_VARIABLES: Final = (TF_CONFIG_ENV, JOB_ENV)


def role_fields(replicas: Replicas, add_note: AddNote) -> Json:
    """Return the fields of a role that render to the pods of `replicas`: short forms, then `template`."""
    path = f"{replicas.path}.template"
    template = deepcopy(replicas.template)
    spec: Json = template["spec"]
    for name, text in _CONTROLLERS_OWN.items():
        if spec.pop(name, None) is not None:
            add_note(f"{path}.spec.{name}", text)
    _drop_resize_policies(spec, f"{path}.spec", add_note)
    main = _take_main(spec)
    place = next(i for i, c in enumerate(replicas.template["spec"]["containers"]) if c.get("name") == MAIN_CONTAINER)
    _drop_own_variables(main, f"{path}.spec.containers[{place}]", add_note)
    _name_port(main)
    _name_port_in_handlers(main)
    _rename_account(spec)
    fields = _short_forms(main, CONTAINER_SHORT_FORMS) | _short_forms(spec, POD_SHORT_FORMS)
    spec["containers"] = [{"name": MAIN_CONTAINER} | main, *spec["containers"]]
    remaining = {"metadata": _metadata(template.get("metadata", {}), path, add_note), "spec": _without_empty(spec)}
    return fields | {"template": _without_empty(remaining)}


def _take_main(spec: Json) -> Json:
    """Remove the container `tensorflow` from the pod and return it without its name."""
    main = next(c for c in spec["containers"] if c.get("name") == MAIN_CONTAINER)
    spec["containers"] = [c for c in spec["containers"] if c is not main]
    return {k: v for k, v in main.items() if k != "name"}


def _drop_own_variables(main: Json, path: str, add_note: AddNote) -> None:
    """Drop variables that TFDist generates, and all but the last of duplicates: in a pod the last one takes effect."""
    last = {v["name"]: i for i, v in enumerate(main.get("env", ()))}
    remaining = []
    for i, variable in enumerate(main.pop("env", ())):
        if variable["name"] in _OWN_VARIABLES:
            add_note(f"{path}.env[{i}]", f"dropped: {variable['name']} is generated for each replica")
        elif last[variable["name"]] != i:
            add_note(f"{path}.env[{i}]", f"dropped: {variable['name']} is set again below, which takes effect")
        else:
            remaining.append(variable)
    if remaining:
        main["env"] = remaining


def _name_port(main: Json) -> None:
    """Rename TensorFlow's port to its name in TFDist, and leave it out if it is the default."""
    ports = [p | {"name": TF_PORT_NAME} if p.get("name") == PORT_NAME else p for p in main.pop("ports", ())]
    default = {"name": TF_PORT_NAME, "containerPort": TF_PORT, "protocol": "TCP"}
    ports = [p for p in ports if {"protocol": "TCP"} | p != default]
    if ports:
        main["ports"] = ports


def _name_port_in_handlers(main: Json) -> None:
    """Rename TensorFlow's port in probes and hooks: the kubelet resolves the name in the same container."""
    lifecycle = main.get("lifecycle", {})
    handlers = [part.get(name, {}) for part, names in ((main, _PROBES), (lifecycle, _HOOKS)) for name in names]
    for handler in handlers:
        for action in (handler.get("httpGet", {}), handler.get("tcpSocket", {})):
            if action.get("port") == PORT_NAME:
                action["port"] = TF_PORT_NAME


def _drop_resize_policies(spec: Json, path: str, add_note: AddNote) -> None:
    """Drop policies that restart a container to resize it: the API server rejects them with `restartPolicy: Never`."""
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(kind, ())):
            if container.get("restartPolicy") == "Always":
                continue
            policies = container.get("resizePolicy", [])
            remaining = [policy for policy in policies if policy.get("restartPolicy") != _RESTART_CONTAINER]
            if remaining != policies:
                container["resizePolicy"] = remaining
                text = (
                    f"dropped {_RESTART_CONTAINER}: pods have restartPolicy Never; a resized container does not restart"
                )
                add_note(f"{path}.{kind}[{i}].resizePolicy", text)


def _rename_account(spec: Json) -> None:
    """Rename the deprecated `serviceAccount`: with it TFDist would not mount a token."""
    account = spec.pop("serviceAccount", None)
    if account:
        spec.setdefault("serviceAccountName", account)


def _short_forms(part: Json, names: tuple[str, ...]) -> Json:
    """Remove the fields `names` from `part` that are valid as a short form, and return them."""
    fields = {}
    for name in names:
        if name not in part:
            continue
        if part[name] in ({}, []):
            part.pop(name)
        elif _is_short_form(name, part[name]):
            fields[name] = part.pop(name)
    return fields


def _is_short_form(name: str, value: Any) -> bool:
    try:
        PodFields.model_validate({name: value})
    except ValidationError:
        return False
    return True


def _metadata(metadata: Json, path: str, add_note: AddNote) -> Json:
    """Return labels and annotations, the only metadata of a template that TFDist sets on pods."""
    supported = ("labels", "annotations")
    for name in metadata:
        if name not in (*supported, "creationTimestamp"):
            add_note(f"{path}.metadata.{name}", "dropped: pods get only labels and annotations from a template")
    return {name: metadata[name] for name in supported if metadata.get(name)}


def _without_empty(part: Json) -> Json:
    return {k: v for k, v in part.items() if v not in ({}, [])}
