"""Owner reference, by which Kubernetes' garbage collector deletes the objects of a job with the job."""

from typing import Any

from tfdist.api.v1 import API_VERSION, KIND, TFDistJob


def owner_reference(job: TFDistJob) -> dict[str, Any]:
    """Return the controller reference to a job; no finalizer is needed."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
