"""Names, labels and addresses of the objects of a job.

A pod of attempt 0 is `<job>-<role>-<index>`, of attempt k `<job>-<role>-<index>-r<k>`; its hostname is always
`<role>-<index>`, so the addresses in `TF_CONFIG` never change while pods of an earlier attempt, even on a dead
node, are still terminating. Deterministic names make creation idempotent.
"""

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from tfdist.api.resource import GROUP
from tfdist.contract import Role, replica_name

if TYPE_CHECKING:  # a client that reads jobs uses the labels, not the models
    from tfdist.api.sweep import TFDistSweep
    from tfdist.api.v1 import TFDistJob

MANAGER: Final = "tfdist"
MANAGED_BY_LABEL: Final = "app.kubernetes.io/managed-by"
JOB_LABEL: Final = f"{GROUP}/job"
JOB_UID_LABEL: Final = f"{GROUP}/job-uid"
ROLE_LABEL: Final = f"{GROUP}/role"
INDEX_LABEL: Final = f"{GROUP}/index"
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
SERVICE_GENERATION_LABEL: Final = f"{GROUP}/address-generation"
"""The Service selects pods by the current value: the addresses of an earlier attempt stop resolving at once."""

CHECKPOINT_ANNOTATION: Final = f"{GROUP}/last-checkpoint-time"
"""On the leader's pod: when its job last completed a checkpoint, for a scheduler that selects a job to preempt."""

PRIORITY_CLASS_ANNOTATION: Final = f"{GROUP}/priority-class"
"""On a Workload: the class of its priority, as resource and name, such as `workloadpriorityclasses/urgent`."""

RETRY_LABEL: Final = f"{GROUP}/scheduling-retries"
"""On a PodGroup: how often its scheduler was to consider it again."""

RESTART_ANNOTATION: Final = f"{GROUP}/restartedAt"
"""On a job: a new value requests a restart."""

TENSORBOARD_LABEL: Final = f"{GROUP}/tensorboard"
"""On the pod of a job's TensorBoard, which is not a replica: the UID of the job."""

SPEC_HASH_LABEL: Final = f"{GROUP}/spec-hash"
"""On Services, NetworkPolicies and Deployments: a hash of the specification that the controller applied."""
CONTROLLER_LABEL: Final = f"{GROUP}/controller"
"""On the same objects: the controller that applied them, as namespace and name of its Lease."""

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""On a job: the LocalQueue of Kueue, as jobs of other kinds name it."""

_APP_DOMAIN: Final = "app.kubernetes.io"
_RESERVED_DOMAINS: Final = (
    GROUP,
    "kubernetes.io",
    "k8s.io",
    "x-k8s.io",
    "argocd.argoproj.io",
    "kapp.k14s.io",
    "objectset.rio.cattle.io",
    "toolkit.fluxcd.io",
)
"""Domains of labels that the objects of a job do not inherit."""

OWN_LABEL_PREFIX: Final = f"{GROUP}/"
POD_SELECTOR: Final = f"{MANAGED_BY_LABEL}={MANAGER},{JOB_LABEL}"


def pod_name(job: str, role: Role, index: int, attempt: int) -> str:
    """Return the name of the pod that runs a replica in an attempt."""
    base = f"{job}-{replica_name(role, index)}"
    return base if attempt == 0 else f"{base}-r{attempt}"


@lru_cache(1024)
def pod_group(job: str, gang: str, attempt: int) -> str:
    """Return the name of the PodGroup of a gang whose replicas started together in an attempt.

    Each such attempt has a separate one: terminating pods of an earlier attempt do not count in it.
    """
    base = f"{job}-{gang}"
    return base if attempt == 0 else f"{base}-r{attempt}"


def workload(job: str, uid: str) -> str:
    """Return the name of the Workload of a job, other than for an earlier, terminating job with this name."""
    return f"tfdistjob-{job}-{hashlib.sha256(uid.encode()).hexdigest()[:5]}"


def tensorboard(job: str) -> str:
    """Return the name of the Deployment, Service and NetworkPolicy of a job's TensorBoard."""
    return f"{job}-tensorboard"


def launcher_secret(job: "TFDistJob") -> str:
    """Return the name of the Secret with the key of the launchers.

    It contains the UID, so that an existing Secret never belongs to an earlier job of the same name: the controller
    has no permission to read Secrets, and could not detect that.
    """
    return f"{job.metadata.name}-launcher-{job.metadata.uid}"


def hostname(role: Role, index: int) -> str:
    """Return the host name of a replica, the same in every attempt."""
    return replica_name(role, index)


def address(job: "TFDistJob", role: Role, index: int, port: int, cluster_domain: str = "") -> str:
    """Return the `host:port` of a replica for its peers.

    Without `cluster_domain` the search path that Kubernetes gives every pod completes the name.
    """
    return f"{hostname(role, index)}.{domain(job, cluster_domain)}:{port}"


def domain(job: "TFDistJob", cluster_domain: str = "") -> str:
    """Return the domain of the replicas' names, which the job's Service defines."""
    suffix = f".{cluster_domain}" if cluster_domain else ""
    return f"{job.metadata.name}.{job.metadata.namespace}.svc{suffix}"


def worker_selector(uid: str) -> str:
    """Return the label selector of the pods of a job's workers."""
    return f"{JOB_UID_LABEL}={uid},{ROLE_LABEL}={Role.WORKER}"


def inherited_labels(owner: "TFDistJob | TFDistSweep") -> dict[str, str]:
    """Return the labels of a job that its objects and pods get too, such as a team or a cost center; or of a sweep.

    Excluded are labels of Kubernetes' domains, by which a controller would queue or prune single pods, except
    `app.kubernetes.io/`; labels by which a tool marks the objects that it applies; and labels of this project.
    """
    return {key: value for key, value in owner.metadata.labels.items() if not _is_reserved(key)}


def _is_reserved(key: str) -> bool:
    domain, _, _ = key.rpartition("/")
    return domain != _APP_DOMAIN and any(f".{domain}".endswith(f".{reserved}") for reserved in _RESERVED_DOMAINS)


def job_labels(job: "TFDistJob") -> dict[str, str]:
    """Return the labels of every object of the job."""
    return {
        "app.kubernetes.io/name": "tfdistjob",
        "app.kubernetes.io/instance": job.metadata.name,
        MANAGED_BY_LABEL: MANAGER,
        JOB_LABEL: job.metadata.name,
        JOB_UID_LABEL: job.metadata.uid,
    }
