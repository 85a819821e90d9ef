"""The pod that a replica type of a TFJob runs, and that of the role it was converted to, in a form to compare."""

from copy import deepcopy
from typing import Any

from tfdist.contract import Role
from tfdist.render.template import role_template
from tfdist.validation import parse

Json = dict[str, Any]


def of_role(manifest: Json, role: str) -> Json:
    """Return the pod template of a role of a TFDistJob with its short forms and templates merged."""
    return _comparable(role_template(parse(manifest), Role(role)))


def of_tfjob(template: Json) -> Json:
    """Return a TFJob's pod template as TFDist has to run it.

    What the controller decides is left out, and TensorFlow's port has TFDist's name. The default port is
    omitted.
    """
    pod = deepcopy(template)
    for name in ("restartPolicy", "hostname", "subdomain"):
        pod["spec"].pop(name, None)
    main = next(c for c in pod["spec"]["containers"] if c["name"] == "tensorflow")
    default = {"name": "tfjob-port", "containerPort": 2222}
    main["ports"] = [
        port | ({"name": "tfdist-port"} if port.get("name") == "tfjob-port" else {})
        for port in main.get("ports", ())
        if port not in (default, default | {"protocol": "TCP"})
    ]
    for part in (*(main.get(f"{kind}Probe", {}) for kind in ("startup", "readiness", "liveness")), *_hooks(main)):
        for action in part.values():
            if isinstance(action, dict) and action.get("port") == "tfjob-port":
                action["port"] = "tfdist-port"
    return _comparable(pod)


def _hooks(container: Json) -> list[Json]:
    return list(container.get("lifecycle", {}).values())


def _comparable(template: Json) -> Json:
    """Put containers in the order of their names, which means nothing, and leave out what is empty."""
    spec = template["spec"]
    containers = [{k: v for k, v in c.items() if v not in ({}, [])} for c in spec["containers"]]
    metadata = {k: v for k, v in template.get("metadata", {}).items() if v and k in {"labels", "annotations"}}
    spec |= {"containers": sorted(containers, key=lambda c: str(c["name"]))}
    return {"metadata": metadata, "spec": {k: v for k, v in spec.items() if v not in ({}, [])}}
