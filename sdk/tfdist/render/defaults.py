"""What a pod is where its author says nothing: the template below all others, and bounds on the loss of a node."""

from typing import Any, Final

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.podspec import merge
from tfdist.render import names, source
from tfdist.render.installation import Installation
from tfdist.render.security import default_security
from tfdist.render.template import main_container, tensorflow_port

LAUNCHER: Final = "tfdist-launch"
TRAINER_COMMAND: Final = ("python", "-m", "tfdist_trainer")
DEFAULT_COMMAND: Final = (LAUNCHER, "--", *TRAINER_COMMAND)
"""Of the bundled trainer: below the launcher, which takes its place where a replica has no gang to be launched."""
NODE_LOSS_SECONDS: Final = 30
"""A replica on a node that stops answering is given up after so long instead of Kubernetes' 300 s."""

TEMPORARY: Final = "tfdist-tmp"
"""The volume of the temporary folder."""
_TEMPORARY_PATH: Final = "/tmp"  # noqa: S108  a folder of the container, an emptyDir of its own


def default_template(job: TFDistJob, role: Role, asked: dict[str, Any], installation: Installation) -> dict[str, Any]:
    """Return the template below `asked`, the author's for a role: ours, the installation's, and the job's fields."""
    main = main_container(asked)
    bundled = "image" not in main
    of_pod, of_container = default_security(bundled=bundled)
    container = {
        "name": contract.MAIN_CONTAINER,
        "image": installation.default_image,
        "ports": _ports(asked),
        "securityContext": of_container,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": TEMPORARY, "mountPath": _TEMPORARY_PATH}],
    }
    if bundled:
        container["command"] = list(DEFAULT_COMMAND)
    spec: dict[str, Any] = {
        "automountServiceAccountToken": "serviceAccountName" in asked.get("spec", {}),
        "containers": [container],
        "enableServiceLinks": False,
        "securityContext": of_pod,
        "volumes": [{"name": TEMPORARY, "emptyDir": {}}],
    }
    result = {"spec": spec}
    for layer in (
        installation.pod_defaults,
        {"spec": _scheduling(job, role)},
        source.overlay(job.spec.training, installation.default_image),
    ):
        result = merge(result, layer, "PodTemplateSpec")
    return result


def _ports(asked: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the container's ports; TensorFlow's may have another number in the author's template."""
    return [
        {"name": contract.TF_PORT_NAME, "containerPort": tensorflow_port(asked)},
        {"name": "tfdist-report", "containerPort": contract.REPORT_PORT},
    ]


def _scheduling(job: TFDistJob, role: Role) -> dict[str, Any]:
    """Return what `scheduling` says to Kubernetes' own scheduler; the evaluator is never part of the gang."""
    scheduling = job.spec.scheduling
    result: dict[str, Any] = {}
    if scheduling.priority_class_name:
        result["priorityClassName"] = scheduling.priority_class_name
    if scheduling.topology_key and role is not Role.EVALUATOR:
        together = {"labelSelector": {"matchLabels": {names.JOB_UID_LABEL: job.metadata.uid}}}
        term = {"weight": 100, "podAffinityTerm": together | {"topologyKey": scheduling.topology_key}}
        result["affinity"] = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return result


def node_loss_tolerations(own: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tolerations that bound how long a dead node holds a replica, but those that the author gives."""
    keys = (f"node.kubernetes.io/{key}" for key in ("not-ready", "unreachable"))
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": NODE_LOSS_SECONDS}
        for key in keys
        if not any(t.get("key") in {key, None} and t.get("effect") in {"NoExecute", None} for t in own)
    ]
