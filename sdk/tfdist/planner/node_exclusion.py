"""Nodes that later attempts avoid: two attempts in a row failed there, and not by a disruption."""

from collections.abc import Sequence
from typing import Final

from tfdist.failure_classification import DISRUPTION, PEER_LOST, PREEMPTED
from tfdist.observed.gang_record import GangRecord
from tfdist.observed.gang_state import GangState
from tfdist.planner.context import PlanContext
from tfdist.planner.root_cause import RootCause

MAX_AVOIDED: Final = 10

_BLAMELESS: Final = frozenset({DISRUPTION.reason, PREEMPTED.reason, PEER_LOST})
"""Reasons that are not caused by the node: disruptions by the cluster, and the loss of a peer on another node."""


def exclude_node(
    context: PlanContext, state: GangState, record: GangRecord, causes: Sequence[RootCause]
) -> tuple[GangRecord, str]:
    """Return the record with another excluded node, and the name of that node; "" without one.

    A node is excluded if the last root cause and one of a *later* attempt were on it: all failures of one attempt are
    one incident.
    """
    last = context.last_root_cause(state.gang)
    if last is None or last["reason"] in _BLAMELESS or not last.get("node") or last["node"] in record.excluded_nodes:
        return record, ""
    node = str(last["node"])
    again = any(
        cause.pod is not None
        and cause.pod.node == node
        and cause.pod.attempt > last["attempt"]
        and cause.classification.reason not in _BLAMELESS
        for cause in causes
    )
    return (
        (record.changed(excluded_nodes=(*record.excluded_nodes, node)[-MAX_AVOIDED:]), node) if again else (record, "")
    )
