"""Ownership: what makes Kubernetes delete a job's objects together with the job."""

from typing import Any

from tfdist.api.v1 import API_VERSION, KIND, TFDistJob


def owner_reference(job: TFDistJob) -> dict[str, Any]:
    """Return the reference that makes an object the job's own; no finalizer is needed for clean-up."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
