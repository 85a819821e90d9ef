"""The headless Service that gives every replica of a job its name."""

from typing import Any

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.render import names
from tfdist.render.owner import owner_reference


def service(job: TFDistJob, address_generation: int) -> dict[str, Any]:
    """Return the Service: one for the whole job, resolving the pods of `address_generation` alone.

    Names resolve before pods are ready (`publishNotReadyAddresses`), because TensorFlow's processes look each
    other up while none of them is.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "labels": names.job_labels(job),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                names.JOB_UID_LABEL: job.metadata.uid,
                names.SERVED_LABEL: str(address_generation),
            },
            "ports": [{"name": contract.TF_PORT_NAME, "port": contract.TF_PORT, "protocol": "TCP"}],
        },
    }
