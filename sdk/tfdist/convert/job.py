"""Puts a TFDistJob together from the parts of a TFJob."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.v1 import API_VERSION, KIND
from tfdist.contract import Role
from tfdist.convert import policies
from tfdist.convert.failure import backoff_limit, failure_policy
from tfdist.convert.lifting import lift
from tfdist.convert.old_names import remark_old_names
from tfdist.convert.pods import role_fields
from tfdist.convert.replicas import Replicas, replica_types
from tfdist.convert.result import CannotConvert, Conversion, Json, Note, Remark
from tfdist.convert.strategy import DEFAULT, strategy
from tfdist.convert.tfjob import TFJob, read
from tfdist.validation import Problem

_KEPT_METADATA: Final = ("name", "generateName", "namespace", "labels", "annotations")
_OTHERS_METADATA: Final = ("ownerReferences", "finalizers")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def convert(manifest: Mapping[str, Any]) -> Conversion:
    """Return the TFDistJob that does what the TFJob `manifest` does, and notes on what is not as it was.

    The manifest is not changed. Whether the result is valid, its name for instance, `tfdist.validation.parse` says.

    Raises:
        CannotConvert: it is no TFJob, or one that its own operator, or TensorFlow, refuses; with every mistake.
    """
    notes: list[Note] = []

    def remark(path: str, message: str) -> None:
        notes.append(Note(path, message))

    job, raw = read(manifest, remark)
    made = {"apiVersion": API_VERSION, "kind": KIND, "metadata": _metadata(job, raw["metadata"], remark)}
    replicas = {r.role: r for r in replica_types(job, raw, remark)}
    spec = _spec(job, replicas, remark)
    remark_old_names(job.metadata.name, replicas.values(), remark)
    return Conversion(made | {"spec": spec}, notes)


def _metadata(job: TFJob, raw: Json, remark: Remark) -> Json:
    """Keep what a person wrote, without what the API server and kubectl added."""
    if not (job.metadata.name or job.metadata.generate_name):
        raise CannotConvert([Problem("metadata.name", "required, and absent or empty")])
    for name in _OTHERS_METADATA:
        if raw.get(name):
            remark(f"metadata.{name}", "dropped: it ties the TFJob to other objects, which do not know the new job")
    kept: Json = {name: raw[name] for name in _KEPT_METADATA if name in raw}
    removed = {"labels": policies.KUEUE_QUEUE_LABEL, "annotations": _LAST_APPLIED}
    for name, key in removed.items():
        kept[name] = {k: v for k, v in kept.get(name, {}).items() if k != key}
    return {name: value for name, value in kept.items() if value}


def _spec(job: TFJob, replicas: dict[Role, Replicas], remark: Remark) -> Json:
    chosen = strategy(replicas, remark)
    shared, own = lift([role_fields(r, remark) for r in replicas.values()])
    roles = {str(r.role): _count(r) | fields for r, fields in zip(replicas.values(), own, strict=True)}
    head: Json = {} if chosen == DEFAULT else {"strategy": chosen}
    return head | shared | roles | _policies(job, replicas, chosen, remark)


def _count(replicas: Replicas) -> Json:
    """Say how many there are, where there can be several."""
    return {"replicas": replicas.count} if replicas.role in {Role.WORKER, Role.PS} else {}


def _policies(job: TFJob, replicas: dict[Role, Replicas], chosen: str, remark: Remark) -> Json:
    spec, dynamic = job.spec, job.spec.enable_dynamic_worker
    limit = backoff_limit(spec.run_policy.backoff_limit, replicas, dynamic=dynamic, remark=remark)
    queue = job.metadata.labels.get(policies.KUEUE_QUEUE_LABEL, "")
    made = {
        "runPolicy": policies.run_policy(spec.run_policy, limit, remark),
        "successPolicy": policies.success_policy(spec.success_policy, has_chief=Role.CHIEF in replicas, remark=remark),
        "failurePolicy": failure_policy(replicas, dynamic=dynamic, remark=remark),
        "elastic": policies.elastic(replicas.get(Role.WORKER), chosen, remark) if dynamic else None,
        "scheduling": policies.scheduling(
            spec.run_policy.scheduling_policy, queue, policies.gang_size(replicas), remark
        ),
    }
    return {name: value for name, value in made.items() if value}
