"""The headless Service that resolves the host names of the replicas."""

from typing import Any

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.render import names
from tfdist.render.metadata import metadata


def service(job: TFDistJob, address_generation: int) -> dict[str, Any]:
    """Return the Service of a job, which selects the pods of `address_generation`.

    Names resolve before pods are ready (`publishNotReadyAddresses`), because TensorFlow's processes connect to each
    other before any of them is ready.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, job.metadata.name),
        "spec": {
            "clusterIP": "None",
            # Members connect to each other before any of them is ready.
            "publishNotReadyAddresses": True,
            "selector": {
                names.JOB_UID_LABEL: job.metadata.uid,
                # The addresses of pods of an earlier attempt stop resolving at once (ADR 6).
                names.SERVICE_GENERATION_LABEL: str(address_generation),
            },
            "ports": [{"name": contract.TF_PORT_NAME, "port": contract.TF_PORT, "protocol": "TCP"}],
        },
    }
