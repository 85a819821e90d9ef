"""Assembles a TFDistJob from the converted parts of a TFJob."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.resource import API_VERSION, KIND
from tfdist.contract import Role
from tfdist.convert import policies
from tfdist.convert.failure_policy import backoff_limit, failure_policy
from tfdist.convert.gang_scheduler import gang_scheduler
from tfdist.convert.hoist import hoist
from tfdist.convert.legacy_names import note_legacy_names, note_pod_names, note_port_name, with_new_labels
from tfdist.convert.platform_notes import note_platform
from tfdist.convert.pods import role_fields
from tfdist.convert.replicas import Replicas, replica_types
from tfdist.convert.result import AddNote, CannotConvert, Conversion, Json, Note
from tfdist.convert.strategy import DEFAULT, strategy
from tfdist.convert.tfjob import Meta, TFJob, read
from tfdist.validation import FieldError

_KEPT_METADATA: Final = ("name", "generateName", "namespace", "labels", "annotations")
_OTHERS_METADATA: Final = ("ownerReferences", "finalizers")
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


def convert(manifest: Mapping[str, Any]) -> Conversion:
    """Return the TFDistJob equivalent to the TFJob `manifest`, with notes on differences.

    The manifest is not modified. The result may be invalid, for instance its name: `tfdist.validation.parse` checks it.

    Raises:
        CannotConvert: not a TFJob, or one that the training-operator or TensorFlow rejects; with every error.
    """
    notes: list[Note] = []

    def add_note(path: str, message: str) -> None:
        notes.append(Note(path, message))

    job, raw = read(manifest, add_note)
    result = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": kept_metadata(job.metadata, raw["metadata"], add_note),
    }
    replicas = {r.role: r for r in with_new_labels(replica_types(job, raw, add_note), add_note)}
    spec = _spec(job, replicas, add_note)
    note_platform(list(replicas.values()), add_note, in_gang="gang" in spec.get("scheduling", {}))
    note_legacy_names(job.metadata.name, replicas.values(), add_note)
    note_pod_names(list(replicas.values()), add_note)
    note_port_name(replicas.values(), add_note)
    return Conversion(result | {"spec": spec}, notes)


def kept_metadata(metadata: Meta, raw: Json, add_note: AddNote) -> Json:
    """Return the user's metadata, without the fields that the API server and kubectl add.

    Args:
        metadata: of the object to convert.
        raw: the same as JSON.
        add_note: adds a note to the result.

    Raises:
        CannotConvert: the name is missing.
    """
    if not (metadata.name or metadata.generate_name):
        raise CannotConvert([FieldError("metadata.name", "required value")])
    for name in _OTHERS_METADATA:
        if raw.get(name):
            add_note(f"metadata.{name}", "dropped: it refers to objects that do not know the new job")
    metadata_fields: Json = {name: raw[name] for name in _KEPT_METADATA if name in raw}
    metadata_fields["annotations"] = {
        k: v for k, v in metadata_fields.get("annotations", {}).items() if k != _LAST_APPLIED
    }
    return {name: value for name, value in metadata_fields.items() if value}


def _spec(job: TFJob, replicas: dict[Role, Replicas], add_note: AddNote) -> Json:
    strategy_name = strategy(replicas, add_note)
    shared, own = hoist([role_fields(r, add_note) for r in replicas.values()])
    roles = {str(r.role): _count(r) | fields for r, fields in zip(replicas.values(), own, strict=True)}
    head: Json = {} if strategy_name == DEFAULT else {"strategy": strategy_name}
    return head | shared | roles | _policies(job, replicas, add_note)


def _count(replicas: Replicas) -> Json:
    """Return `replicas` for a role that can have several."""
    return {"replicas": replicas.count} if replicas.role in {Role.WORKER, Role.PS} else {}


def _gang_size(replicas: dict[Role, Replicas]) -> int:
    """Return the number of replicas that train."""
    return sum(r.count for r in replicas.values() if r.role is not Role.EVALUATOR)


def _policies(job: TFJob, replicas: dict[Role, Replicas], add_note: AddNote) -> Json:
    spec, dynamic = job.spec, job.spec.enable_dynamic_worker
    limit = backoff_limit(spec.run_policy.backoff_limit, replicas, dynamic=dynamic, add_note=add_note)
    size = _gang_size(replicas)
    gang = gang_scheduler(spec.run_policy.scheduling_policy, replicas.values(), size, add_note)
    result = {
        "runPolicy": policies.run_policy(spec.run_policy, limit, add_note),
        "successPolicy": policies.success_policy(
            spec.success_policy, has_chief=Role.CHIEF in replicas, add_note=add_note
        ),
        "failurePolicy": failure_policy(replicas, dynamic=dynamic, add_note=add_note),
        "scheduling": policies.scheduling(spec.run_policy.scheduling_policy, gang, size, add_note),
    }
    if dynamic:
        policies.note_dynamic_workers(add_note)
    return {name: value for name, value in result.items() if value}
