"""The holder of a replica's pod name, after the creation of the pod was rejected with 409."""

from collections.abc import Mapping
from typing import Any, Final

from tfdist.render import names

Raw = Mapping[str, Any]

_IDENTITY: Final = (
    names.MANAGED_BY_LABEL,
    names.JOB_LABEL,
    names.JOB_UID_LABEL,
    names.ROLE_LABEL,
    names.INDEX_LABEL,
    names.ATTEMPT_LABEL,
)


def is_same_replica(existing: Raw, desired: Raw) -> bool:
    """Return whether a stored pod runs the replica of the job's attempt that the pod `desired` is to run."""
    existing_labels, desired_labels = existing["metadata"].get("labels") or {}, desired["metadata"]["labels"]
    return all(existing_labels.get(name) == desired_labels[name] for name in _IDENTITY)


def name_conflict_message(existing: Raw) -> str:
    """Return a message: the existing pod, its owner, and the remedy."""
    meta = existing["metadata"]
    text = f"pod {meta['namespace']}/{meta['name']} is there and belongs to {_holder(meta)}"
    if "deletionTimestamp" in meta:
        return f"{text}; it is being deleted, and creation follows"
    return f"{text}: delete it, or give the job another name"


def _holder(meta: Raw) -> str:
    owner = next((o for o in meta.get("ownerReferences") or () if o.get("controller")), None)
    job = (meta.get("labels") or {}).get(names.JOB_LABEL)
    if job is not None:
        return "an earlier TFDistJob of this name" if meta["name"].startswith(f"{job}-") else f"TFDistJob {job}"
    return f"{owner['kind']} {owner['name']}" if owner else "nothing that manages it"
