"""Objects as the API server gives them, as far as a cache reads them."""

from typing import Any

from support.factories import UID
from tfdist.contract import Role
from tfdist.render import names

Json = dict[str, Any]


def raw_pod(version: int, index: int = 0, *, uid: str = "", job: str = "fashion", job_uid: str = UID) -> Json:
    """Return a pending worker of attempt 0 with the labels that the controller writes."""
    labels = {
        names.MANAGED_BY_LABEL: names.MANAGER,
        names.JOB_LABEL: job,
        names.JOB_UID_LABEL: job_uid,
        names.ROLE_LABEL: str(Role.WORKER),
        names.INDEX_LABEL: str(index),
        names.ATTEMPT_LABEL: "0",
        names.SERVICE_GENERATION_LABEL: "0",
    }
    meta = {
        "name": f"{job}-worker-{index}",
        "namespace": "team",
        "uid": uid or f"uid-{index}",
        "resourceVersion": str(version),
        "labels": labels,
        "ownerReferences": [{"kind": "TFDistJob", "name": job, "uid": job_uid, "controller": True}],
    }
    return {"metadata": meta, "spec": {"containers": [{"name": "tensorflow", "image": "trainer:1"}]}, "status": {}}
