"""Metadata of the objects of a job, with the owner reference by which Kubernetes deletes them with the job."""

from typing import Any

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.v1 import TFDistJob
from tfdist.render.names import inherited_labels, job_labels

Manifest = dict[str, Any]
"""An object as JSON, as it is sent to the API server."""


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


def metadata(job: TFDistJob, name: str) -> dict[str, Any]:
    """Return the metadata of an object of the job other than a pod."""
    return {
        "name": name,
        "namespace": job.metadata.namespace,
        "labels": inherited_labels(job) | job_labels(job),
        "ownerReferences": [owner_reference(job)],
    }
