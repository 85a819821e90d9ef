"""The Workload by which Kueue admits a job: its queue, and the requests of its pods by role.

Kueue admits Workloads of any owner. With a Workload per job, the pods need no integration of Kueue: the job has one
Workload for its lifetime, and keeps its quota while its replicas restart (ADR 38).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render import names
from tfdist.render.gang import gangs
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest, metadata
from tfdist.render.pod import pod_template

GROUP: Final = "kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
"""Versions whose fields the controller knows, the preferred one first."""
KIND: Final = "Workload"
PLURAL: Final = "workloads"
PRIORITY_CLASS_LABEL: Final = f"{GROUP}/priority-class"
KUEUE_PRIORITY_CLASSES: Final = "workloadpriorityclasses"
"""Resource of Kueue's own priority classes."""
POD_PRIORITY_CLASSES: Final = "priorityclasses"
"""Resource of Kubernetes' priority classes."""
_DEFAULT_QUEUE: Final = "default"
"""The LocalQueue that Kueue itself gives jobs without a queue."""

_SCHEDULING_FIELDS: Final = (
    "affinity", "nodeSelector", "overhead", "resourceClaims", "runtimeClassName", "schedulerName", "tolerations",
)  # fmt: skip
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy")
_HASH_DIGITS: Final = 16


def queue_name(job: TFDistJob) -> str:
    """Return the LocalQueue of a job, from `scheduling.queue` or the label by which jobs of other kinds name it."""
    return job.spec.scheduling.queue or job.metadata.labels.get(names.QUEUE_LABEL, "") or _DEFAULT_QUEUE


def pod_set_of(role: Role) -> str:
    """Return the name of the pod set of a role; an evaluation after training uses the quota of the workers."""
    return str(Role.WORKER if role is Role.EVALUATION else role)


def workload(job: TFDistJob, installation: Installation) -> Manifest:
    """Return the Workload of a job, without its priority: that is the value of a priority class of the cluster.

    A label has the hash of its specification, and an annotation the priority class, which may change at any time.
    """
    spec = {"queueName": queue_name(job), "podSets": list(_pod_sets(job, installation))}
    # Compared instead of the content, to which the API server adds defaults.
    digest = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:_HASH_DIGITS]
    meta = metadata(job, names.workload(job.metadata.name, job.metadata.uid))
    meta["labels"] = meta["labels"] | {names.SPEC_HASH_LABEL: digest, f"{GROUP}/job-uid": job.metadata.uid}
    meta["annotations"] = {names.PRIORITY_CLASS_ANNOTATION: _priority_class(job, installation)}
    return {"kind": KIND, "metadata": meta, "spec": spec}


def _priority_class(job: TFDistJob, installation: Installation) -> str:
    """Return resource and name of the class that has the priority of a job; without a name, it is the default one."""
    if name := job.metadata.labels.get(PRIORITY_CLASS_LABEL, ""):
        return f"{KUEUE_PRIORITY_CLASSES}/{name}"
    roles = dict.fromkeys(member.role for gang in gangs(job) for member in gang.members)
    of_pods = (pod_template(job, role, installation)["spec"].get("priorityClassName") for role in roles)
    return f"{POD_PRIORITY_CLASSES}/{next(filter(None, of_pods), '')}"


def _pod_sets(job: TFDistJob, installation: Installation) -> Iterator[Manifest]:
    """Yield a pod set for each role that the job runs at one time, with the most pods of it."""
    counts: dict[str, int] = {}
    templates: dict[str, Manifest] = {}
    for gang in gangs(job):
        for role in dict.fromkeys(member.role for member in gang.members):
            name = pod_set_of(role)
            # Gangs that share a pod set follow each other, so the larger one is enough.
            counts[name] = max(counts.get(name, 0), gang.sizes()[str(role)])
            if name not in templates:
                templates[name] = _requests(pod_template(job, role, installation))
    return ({"name": name, "count": counts[name], "template": templates[name]} for name in counts)


def _requests(template: Mapping[str, Any]) -> Manifest:
    """Return the part of a pod template that quota and nodes depend on, without the size of commands and variables."""
    spec = template["spec"]
    fields: Manifest = {name: spec[name] for name in _SCHEDULING_FIELDS if name in spec}
    for kind in ("initContainers", "containers"):
        if containers := [_container(c) for c in spec.get(kind, ())]:
            fields[kind] = containers
    claims = [v for v in spec.get("volumes", ()) if "persistentVolumeClaim" in v]
    if claims:
        fields["volumes"] = claims
    return {"spec": fields | {"restartPolicy": "Never"}}


def _container(container: Mapping[str, Any]) -> Manifest:
    """Return the fields of a container that quota depends on, and the image, for readers of the Workload."""
    return {name: container[name] for name in _CONTAINER_FIELDS if name in container}
