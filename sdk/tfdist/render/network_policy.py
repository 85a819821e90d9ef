"""The NetworkPolicy of a job: TensorFlow's gRPC server has no authentication, so only the job's pods may connect.

Network policies are additive: a connection that one allows, no other can deny. This one therefore allows only the
connections that the job and `networkPolicyIngress` need, and does not weaken a namespace's default-deny.
"""

from typing import Any, Final

from tfdist import contract
from tfdist.api.v1 import TFDistJob
from tfdist.render import names
from tfdist.render.installation import Installation
from tfdist.render.metadata import metadata

_NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"


def network_policy(job: TFDistJob, installation: Installation) -> dict[str, Any]:
    """Return the policy: it admits the job's own pods on all ports, and the controller's pods on the report port.

    All ports and protocols, because TensorFlow's collectives (NCCL) listen on ephemeral ones.
    `spec.networkPolicyIngress` adds rules. The caller evaluates `networkPolicy: Disabled`.
    """
    pod_labels = {names.JOB_UID_LABEL: job.metadata.uid}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(job, job.metadata.name),
        "spec": {
            "podSelector": {"matchLabels": pod_labels},
            "policyTypes": ["Ingress"],
            "ingress": [
                # No ports: NCCL and the gRPC of collectives listen on ephemeral ones (ADR 25).
                {"from": [{"podSelector": {"matchLabels": pod_labels}}]},
                {
                    # Only reports: the controller needs no other port of user code (ADR 25).
                    "from": [_controller(installation)],
                    "ports": [{"protocol": "TCP", "port": contract.REPORT_PORT}],
                },
                *_additional_rules(job),
            ],
        },
    }


def _controller(installation: Installation) -> dict[str, Any]:
    """Return the NetworkPolicyPeer of the controller: pods with its labels in its namespace."""
    return {
        "namespaceSelector": {"matchLabels": {_NAMESPACE_LABEL: installation.namespace}},
        "podSelector": {"matchLabels": dict(installation.controller_labels)},
    }


def _additional_rules(job: TFDistJob) -> list[dict[str, Any]]:
    """Return the rules of `networkPolicyIngress` as NetworkPolicyIngressRule objects."""
    rules = job.spec.network_policy_ingress or ()
    return [rule.model_dump(mode="json", by_alias=True, exclude_none=True) for rule in rules]
