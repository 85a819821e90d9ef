"""The TensorBoard of a job: a Deployment with one pod, a Service, and a NetworkPolicy that denies all ingress.

`kubectl port-forward` still works, because it connects from the node. TensorBoard has no authentication; a
NetworkPolicy of the user may admit other clients.
"""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.training import TensorBoardSpec
from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.contract import Role
from tfdist.podspec import merge
from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest, metadata
from tfdist.render.replica_job import expand_placeholders
from tfdist.render.security import default_security
from tfdist.render.template import main_container, role_template

PORT: Final = 6006
"""Default port of TensorBoard."""

_CONTAINER: Final = "tensorboard"
_TEMPORARY: Final = "tfdist-tmp"
_INHERITED_POD_FIELDS: Final = ("imagePullSecrets", "nodeSelector", "serviceAccountName", "tolerations")
"""Fields of the replicas' pods that the pod inherits, in addition to the volumes."""
_INHERITED_CONTAINER_FIELDS: Final = ("env", "envFrom")
"""They may configure access to an object store."""
_RESOURCES: Final = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}


def tensorboard(job: TFDistJob, board: TensorBoardSpec, installation: Installation) -> tuple[Manifest, ...]:
    """Return the objects of a job's TensorBoard in the order of creation."""
    service = _object(job, "v1", "Service", {"selector": _selector(job), "ports": [_port("port") | {"name": "http"}]})
    deployment = _object(job, "apps/v1", "Deployment", _deployment(job, board, installation))
    if job.spec.network_policy != "Enabled":
        return (service, deployment)
    deny_all = {"podSelector": {"matchLabels": _selector(job)}, "policyTypes": ["Ingress"], "ingress": []}
    return (_object(job, "networking.k8s.io/v1", "NetworkPolicy", deny_all), service, deployment)


def _object(job: TFDistJob, version: str, kind: str, spec: Manifest) -> Manifest:
    object_metadata = metadata(job, names.tensorboard(job.metadata.name))
    return {"apiVersion": version, "kind": kind, "metadata": object_metadata, "spec": spec}


def _selector(job: TFDistJob) -> dict[str, str]:
    return {names.TENSORBOARD_LABEL: job.metadata.uid}


def _port(field: str) -> Manifest:
    return {field: PORT, "protocol": "TCP"}


def _deployment(job: TFDistJob, board: TensorBoardSpec, installation: Installation) -> Manifest:
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},  # a ReadWriteOnce volume is mounted by one node at a time
        "selector": {"matchLabels": _selector(job)},
        "template": merge(installation.pod_defaults, _template(job, board, installation), "PodTemplateSpec"),
    }


def _template(job: TFDistJob, board: TensorBoardSpec, installation: Installation) -> Manifest:
    """Return the pod template; neither the job's selectors nor its NetworkPolicy match its labels."""
    replica_template = role_template(job, _role(job.spec))
    replica_security = replica_template.get("spec", {}).get("securityContext", {})
    # only the user of the pod is inherited, not the user of a container
    pod_security, _ = default_security({"spec": {"securityContext": replica_security}}, bundled=True)
    inherited = {
        name: value for name, value in replica_template.get("spec", {}).items() if name in _INHERITED_POD_FIELDS
    }
    labels = names.inherited_labels(job) | {
        "app.kubernetes.io/name": "tensorboard",
        "app.kubernetes.io/instance": job.metadata.name,
        "app.kubernetes.io/component": "tensorboard",
    }
    volumes = [*replica_template.get("spec", {}).get("volumes", ()), {"name": _TEMPORARY, "emptyDir": {}}]
    spec = {
        "containers": [_container(job, board, installation, main_container(replica_template))],
        "enableServiceLinks": False,
        "securityContext": replica_security | pod_security,
        "volumes": volumes,
    }
    token = {} if "serviceAccountName" in inherited else {"automountServiceAccountToken": False}
    return {"metadata": {"labels": labels | _selector(job)}, "spec": inherited | token | spec}


def _container(job: TFDistJob, board: TensorBoardSpec, installation: Installation, main: Mapping[str, Any]) -> Manifest:
    _, restricted = default_security({}, bundled=True)
    inherited = {name: value for name, value in main.items() if name in _INHERITED_CONTAINER_FIELDS}
    mounts = [mount | {"readOnly": True} for mount in main.get("volumeMounts", ())]
    resources = board.resources.model_dump(mode="json", by_alias=True, exclude_none=True) if board.resources else None
    return inherited | {
        "name": _CONTAINER,
        "image": board.image or installation.default_image,
        "command": ["python", "-m", "tensorboard.main"],
        "args": [f"--logdir={_log_directory(job, board)}", f"--port={PORT}", "--bind_all", "--reload_interval=15"],
        "ports": [_port("containerPort") | {"name": "http"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": PORT}, "periodSeconds": 5},
        "resources": resources or _RESOURCES,
        "securityContext": restricted,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *(mount for mount in mounts if mount["mountPath"] != "/tmp"),  # noqa: S108  in the pod
            {"name": _TEMPORARY, "mountPath": "/tmp"},  # noqa: S108
        ],
    }


def _log_directory(job: TFDistJob, board: TensorBoardSpec) -> str:
    """Return the log directory; validation ensures that one of the two fields is set."""
    checkpoint = job.spec.checkpoint
    return expand_placeholders(job, board.log_directory or (checkpoint.directory if checkpoint else ""))


def _role(spec: TFDistJobSpec) -> Role:
    """Return the role whose replicas write the logs."""
    return Role.CHIEF if spec.chief else Role.WORKER
