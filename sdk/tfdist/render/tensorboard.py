"""A job's TensorBoard: a Deployment of one pod, a Service, and a NetworkPolicy that admits nobody.

Whoever may forward ports in the namespace sees it (`kubectl port-forward`, which comes from the node and needs no
admission); to open it to others is the user's own policy's to say. TensorBoard has no log-in of its own.
"""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.training import TensorBoardSpec
from tfdist.api.v1 import TFDistJob, TFDistJobSpec
from tfdist.contract import Role
from tfdist.podspec import merge
from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.owner import owner_reference
from tfdist.render.replica_job import filled_in
from tfdist.render.security import default_security
from tfdist.render.template import main_container, role_template

Manifest = dict[str, Any]

PORT: Final = 6006
"""TensorBoard's own default."""

_CONTAINER: Final = "tensorboard"
_TEMPORARY: Final = "tfdist-tmp"
_OF_POD: Final = ("imagePullSecrets", "nodeSelector", "serviceAccountName", "tolerations")
"""What the pod takes over from the job's replicas, besides their volumes."""
_OF_CONTAINER: Final = ("env", "envFrom")
"""What may hold the way to a store of objects."""
_RESOURCES: Final = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}


def tensorboard(job: TFDistJob, wanted: TensorBoardSpec, installation: Installation) -> tuple[Manifest, ...]:
    """Return the objects of a job's TensorBoard, in the order in which they are made."""
    service = _object(job, "v1", "Service", {"selector": _selector(job), "ports": [_port("port") | {"name": "http"}]})
    made = _object(job, "apps/v1", "Deployment", _deployment(job, wanted, installation))
    if job.spec.network_policy != "Enabled":
        return (service, made)
    closed = {"podSelector": {"matchLabels": _selector(job)}, "policyTypes": ["Ingress"], "ingress": []}
    return (_object(job, "networking.k8s.io/v1", "NetworkPolicy", closed), service, made)


def _object(job: TFDistJob, version: str, kind: str, spec: Manifest) -> Manifest:
    metadata = {
        "name": names.tensorboard(job.metadata.name),
        "namespace": job.metadata.namespace,
        "labels": names.job_labels(job),
        "ownerReferences": [owner_reference(job)],
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _selector(job: TFDistJob) -> dict[str, str]:
    return {names.TENSORBOARD_LABEL: job.metadata.uid}


def _port(field: str) -> Manifest:
    return {field: PORT, "protocol": "TCP"}


def _deployment(job: TFDistJob, wanted: TensorBoardSpec, installation: Installation) -> Manifest:
    return {
        "replicas": 1,
        "strategy": {"type": "Recreate"},  # a volume may be one that a single node mounts
        "selector": {"matchLabels": _selector(job)},
        "template": merge(installation.pod_defaults, _template(job, wanted, installation), "PodTemplateSpec"),
    }


def _template(job: TFDistJob, wanted: TensorBoardSpec, installation: Installation) -> Manifest:
    """Return the pod template. Its labels are none by which the job's own pods and their policy are found."""
    asked = role_template(job, _role(job.spec))
    of_pod, _ = default_security(bundled=True)
    taken = {name: value for name, value in asked.get("spec", {}).items() if name in _OF_POD}
    labels = {
        "app.kubernetes.io/name": "tensorboard",
        "app.kubernetes.io/instance": job.metadata.name,
        "app.kubernetes.io/component": "tensorboard",
    }
    volumes = [*asked.get("spec", {}).get("volumes", ()), {"name": _TEMPORARY, "emptyDir": {}}]
    spec = {
        "automountServiceAccountToken": "serviceAccountName" in taken,
        "containers": [_container(job, wanted, installation, main_container(asked))],
        "enableServiceLinks": False,
        "securityContext": asked.get("spec", {}).get("securityContext", {}) | of_pod,
        "volumes": volumes,
    }
    return {"metadata": {"labels": labels | _selector(job)}, "spec": taken | spec}


def _container(
    job: TFDistJob, wanted: TensorBoardSpec, installation: Installation, main: Mapping[str, Any]
) -> Manifest:
    _, restricted = default_security(bundled=True)
    taken = {name: value for name, value in main.items() if name in _OF_CONTAINER}
    mounts = [mount | {"readOnly": True} for mount in main.get("volumeMounts", ())]
    resources = wanted.resources.model_dump(mode="json", by_alias=True, exclude_none=True) if wanted.resources else None
    return taken | {
        "name": _CONTAINER,
        "image": wanted.image or installation.default_image,
        "command": ["python", "-m", "tensorboard.main"],
        "args": [f"--logdir={_log_directory(job, wanted)}", f"--port={PORT}", "--bind_all", "--reload_interval=15"],
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


def _log_directory(job: TFDistJob, wanted: TensorBoardSpec) -> str:
    """Return where the logs are; the specification's rules see to it that one of the two is given."""
    checkpoint = job.spec.checkpoint
    return filled_in(job, wanted.log_directory or (checkpoint.directory if checkpoint else ""))


def _role(spec: TFDistJobSpec) -> Role:
    """Return the role whose replicas write what is shown."""
    return Role.CHIEF if spec.chief else Role.WORKER
