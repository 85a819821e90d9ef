"""The pod template of a replica type as the fields of a role: short forms where they suffice, and the rest.

A field of the container `tensorflow` goes whole into the short form or whole into the template, so that the merged
pod is the original whatever is later lifted to the job.
"""

from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from tfdist.api.pod_fields import PodFields
from tfdist.contract import JOB_ENV, TF_CONFIG_ENV, TF_PORT, TF_PORT_NAME
from tfdist.convert.replicas import Replicas
from tfdist.convert.result import Json, Remark
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
    "restartPolicy": "dropped: TFDist decides about restarts, as the peer did whatever stood here",
    "hostname": "dropped: TFDist names the host after the replica, such as worker-0",
    "subdomain": "dropped: TFDist sets it to the job's name, for the replicas' addresses",
}
_OWN_VARIABLES: Final = (TF_CONFIG_ENV, JOB_ENV)


def role_fields(replicas: Replicas, remark: Remark) -> Json:
    """Return the fields of a role that make the pods of `replicas`: short forms, then `template`."""
    path = f"{replicas.path}.template"
    template = deepcopy(replicas.template)
    spec: Json = template["spec"]
    for name, text in _CONTROLLERS_OWN.items():
        if spec.pop(name, None) is not None:
            remark(f"{path}.spec.{name}", text)
    main = _take_main(spec)
    place = next(i for i, c in enumerate(replicas.template["spec"]["containers"]) if c.get("name") == MAIN_CONTAINER)
    _drop_own_variables(main, f"{path}.spec.containers[{place}]", remark)
    _name_port(main)
    _rename_account(spec)
    fields = _short_forms(main, CONTAINER_SHORT_FORMS) | _short_forms(spec, POD_SHORT_FORMS)
    spec["containers"] = [{"name": MAIN_CONTAINER} | main, *spec["containers"]]
    rest = {"metadata": _metadata(template.get("metadata", {}), path, remark), "spec": _without_empty(spec)}
    return fields | {"template": _without_empty(rest)}


def _take_main(spec: Json) -> Json:
    """Take the container `tensorflow` out of the pod and return it without its name."""
    main = next(c for c in spec["containers"] if c.get("name") == MAIN_CONTAINER)
    spec["containers"] = [c for c in spec["containers"] if c is not main]
    return {k: v for k, v in main.items() if k != "name"}


def _drop_own_variables(main: Json, path: str, remark: Remark) -> None:
    """Drop variables that TFDist writes, and all but the last of those that are there twice: the last one counts."""
    last = {v["name"]: i for i, v in enumerate(main.get("env", ()))}
    kept = []
    for i, variable in enumerate(main.pop("env", ())):
        if variable["name"] in _OWN_VARIABLES:
            remark(f"{path}.env[{i}]", f"dropped: {variable['name']} is generated for each replica")
        elif last[variable["name"]] != i:
            remark(f"{path}.env[{i}]", f"dropped: {variable['name']} is set again further down, which counts")
        else:
            kept.append(variable)
    if kept:
        main["env"] = kept


def _name_port(main: Json) -> None:
    """Give TensorFlow's port its name in TFDist, and leave it out where it is the default."""
    ports = [p | {"name": TF_PORT_NAME} if p.get("name") == PORT_NAME else p for p in main.pop("ports", ())]
    default = {"name": TF_PORT_NAME, "containerPort": TF_PORT, "protocol": "TCP"}
    ports = [p for p in ports if {"protocol": "TCP"} | p != default]
    if ports:
        main["ports"] = ports


def _rename_account(spec: Json) -> None:
    """Give the service account its present name: for the older one TFDist would not mount a token."""
    account = spec.pop("serviceAccount", None)
    if account:
        spec.setdefault("serviceAccountName", account)


def _short_forms(part: Json, names: tuple[str, ...]) -> Json:
    """Take the fields `names` out of `part` that the short form of the same name can say, and return them."""
    taken = {}
    for name in names:
        if name not in part:
            continue
        if part[name] in ({}, []):
            part.pop(name)
        elif _sayable(name, part[name]):
            taken[name] = part.pop(name)
    return taken


def _sayable(name: str, value: Any) -> bool:
    try:
        PodFields.model_validate({name: value})
    except ValidationError:
        return False
    return True


def _metadata(given: Json, path: str, remark: Remark) -> Json:
    """Return the labels and annotations, the part of the metadata that TFDist puts on pods."""
    kept = ("labels", "annotations")
    for name in given:
        if name not in (*kept, "creationTimestamp"):
            remark(f"{path}.metadata.{name}", "dropped: pods get labels and annotations from a template, nothing else")
    return {name: given[name] for name in kept if given.get(name)}


def _without_empty(part: Json) -> Json:
    return {k: v for k, v in part.items() if v not in ({}, [])}
