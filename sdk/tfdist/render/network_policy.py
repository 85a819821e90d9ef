"""The NetworkPolicy of a job: TensorFlow's gRPC server trusts whoever reaches it, so only the job's pods may."""

import itertools
from typing import Any

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.render import names
from tfdist.render.gang import gangs
from tfdist.render.owner import owner_reference
from tfdist.render.template import role_template, tensorflow_port

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_LAST_PORT = 65535


def network_policy(job: TFDistJob, controller_namespace: str) -> dict[str, Any]:
    """Return the policy: the job's own pods reach everything, the controller the report port, others the rest.

    Ports that the author's program serves by itself, such as metrics, stay open to whoever may reach pods of the
    namespace; `networkPolicy: Disabled` makes none.
    """
    roles = {member.role for gang in gangs(job) for member in gang.members}
    servers = {tensorflow_port(role_template(job, role)) for role in roles}
    if job.spec.run_policy.standby:
        servers |= {port + contract.STANDBY_PORT_OFFSET for port in servers}
    closed = sorted({contract.LAUNCH_PORT, contract.REPORT_PORT, *servers})
    own = {names.JOB_UID_LABEL: job.metadata.uid}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "labels": names.job_labels(job),
            "ownerReferences": [owner_reference(job)],
        },
        "spec": {
            "podSelector": {"matchLabels": own},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [{"podSelector": {"matchLabels": own}}]},
                {
                    "from": [{"namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: controller_namespace}}}],
                    "ports": [{"protocol": "TCP", "port": contract.REPORT_PORT}],
                },
                {"ports": [*_all_but(closed), {"protocol": "UDP"}]},
            ],
        },
    }


def _all_but(closed: list[int]) -> list[dict[str, Any]]:
    """Return the ranges of TCP ports between the closed ones."""
    edges = [0, *closed, _LAST_PORT + 1]
    gaps = ((low + 1, high - 1) for low, high in itertools.pairwise(edges))
    return [{"protocol": "TCP", "port": low, "endPort": high} for low, high in gaps if low <= high]
