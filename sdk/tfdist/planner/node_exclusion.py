"""Nodes that later attempts avoid: a failure there is the node's, or two attempts in a row failed there."""

from collections.abc import Sequence
from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.failure_classification import DISRUPTION, PEER_LOST, PREEMPTED, Action
from tfdist.observed.gang_state import GangState
from tfdist.planner.context import PlanContext
from tfdist.planner.root_cause import ReplicaRootCause

MAX_AVOIDED: Final = 10

_BLAMELESS: Final = frozenset({DISRUPTION.reason, PREEMPTED.reason, PEER_LOST})
"""Reasons that are not caused by the node: disruptions by the cluster, and the loss of a peer on another node."""


def exclude_nodes(
    context: PlanContext, state: GangState, record: GangStatus, causes: Sequence[ReplicaRootCause]
) -> tuple[GangStatus, str]:
    """Return the record with further excluded nodes, and why they are excluded as text; "" without any.

    One failure with the action `AvoidNode` excludes a node. Any other failure excludes it if the last root cause and
    one of a *later* attempt were on it: all failures of one attempt are one incident.
    """
    at_fault = [cause for cause in causes if cause.classification.action is Action.AVOID_NODE]
    # Once may be chance; twice in a row on one node is probably the node.
    repeated_node = _node_of_two_attempts(context, state, causes)
    reasons = {_node(cause): f"{cause.member.name} failed by a fault of node {_node(cause)}" for cause in at_fault}
    reasons.setdefault(repeated_node, f"two attempts in a row failed on node {repeated_node}")
    new_nodes = [node for node in reasons if node and node not in record.excluded_nodes]
    if not new_nodes:
        return record, ""
    return (
        record.changed(excluded_nodes=(*record.excluded_nodes, *new_nodes)[-MAX_AVOIDED:]),
        "; ".join(reasons[node] for node in new_nodes),
    )


def _node_of_two_attempts(context: PlanContext, state: GangState, causes: Sequence[ReplicaRootCause]) -> str:
    """Return the node of the last root cause and of one of a later attempt; "" without one."""
    last = context.last_root_cause(state.gang)
    if last is None or last.reason in _BLAMELESS:
        return ""
    node = last.node or ""
    failed_again = any(
        cause.pod is not None
        and cause.pod.node == node
        and cause.pod.attempt > last.attempt
        and cause.classification.reason not in _BLAMELESS
        for cause in causes
    )
    return node if failed_again else ""


def _node(cause: ReplicaRootCause) -> str:
    return cause.pod.node if cause.pod else ""
