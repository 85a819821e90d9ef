"""TFJobs for tests: each field that a test does not give has an ordinary value."""

from copy import deepcopy
from typing import Any

Json = dict[str, Any]

IMAGE = "registry.example.com/team/train:7"


def replica(replicas: int | None = None, pod: Json | None = None, **fields: Any) -> Json:
    """Return a replica type whose container `tensorflow` has `fields`; `restart_policy` and `pod` are next to it."""
    policy = fields.pop("restart_policy", None)
    container = {"name": "tensorflow", "image": IMAGE} | fields
    replica_spec: Json = {"template": {"spec": {"containers": [container]} | (pod or {})}}
    replica_spec |= {} if replicas is None else {"replicas": replicas}
    return replica_spec | ({} if policy is None else {"restartPolicy": policy})


def tfjob(types: Json | None = None, *, name: str = "fashion", policy: Json | None = None, **spec: Any) -> Json:
    """Return the JSON of a TFJob, with two workers if `types` (a replica type by its key) has no others."""
    document: Json = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"tfReplicaSpecs": types if types is not None else {"Worker": replica(2)}} | spec,
    }
    if policy is not None:
        document["spec"]["runPolicy"] = policy
    return deepcopy(document)


def all_types(pod: Json | None = None, **fields: Any) -> Json:
    """Return a Chief, two Workers, two PS and an Evaluator with the same `pod` and container fields."""
    sizes = {"Chief": 1, "Worker": 2, "PS": 2, "Evaluator": 1}
    return {key: deepcopy(replica(size, pod, **fields)) for key, size in sizes.items()}
