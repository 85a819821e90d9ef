"""Finds the root cause when replicas exit because they lost a peer that has not been seen to fail.

The peer may have failed before its kubelet reported it: the planner waits for that. Or the peer hangs, as under
SIGSTOP, on a partitioned node, or in a system call that never returns: then TensorFlow's heartbeats end the others, and
only that peer still runs. So running replicas are probed, and one that does not answer is the root cause.
"""

from collections.abc import Callable, Sequence
from typing import Final

from tfdist.contract import ExitCode
from tfdist.failure_classification import may_have_lost_peer
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodState, PodSummary
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import ProbeTarget

ROOT_CAUSE_GRACE_SECONDS: Final = 3.0
"""Time to wait for the report of the failure that made others lose their peer."""


def _has_lost_peer(pod: PodSummary) -> bool:
    return pod.exit_code == ExitCode.PEER_LOST


def _surviving_peers(
    state: GangState, lost_peer: Callable[[PodSummary], bool] = _has_lost_peer
) -> Sequence[PodSummary]:
    """Return the running replicas if all failed ones lost a peer; none if any failed for another reason."""
    # A deletion or disruption is the known cause: no replica is suspected.
    if state.deleted_members or any(p.deleting or p.disrupted for p in state.failed_or_terminating):
        return ()
    running = [p for p in state.pods if p.state is PodState.RUNNING]
    return running if running and all(map(lost_peer, state.failed_or_terminating)) else ()


def _probe_id(state: GangState) -> str:
    return f"peer failure in attempt {state.attempt}"


def root_cause_grace_remaining_seconds(context: PlanContext, state: GangState) -> float:
    """Return the remaining seconds to wait for the report of the root cause.

    Kubelets report within a second or two, each for its own node: the failure of a peer may be reported after the
    failures that it causes. The time counts from when this process saw the first of these: the clocks of nodes differ.
    """
    if not _surviving_peers(state, may_have_lost_peer):
        return 0.0
    first_seen = min(context.failure_seen_at[p.name] for p in state.failed_or_terminating)
    return max(0.0, ROOT_CAUSE_GRACE_SECONDS - (context.now - first_seen).total_seconds())


def peer_probes(context: PlanContext, state: GangState) -> tuple[tuple[ProbeTarget, ...], str]:
    """Return the replicas to probe and the probe's identity; none after the probe or without any reports."""
    peers, report = _surviving_peers(state), context.view.runtime.report
    if not peers or report is None or report.content.attempt != state.record.attempt_of(state.gang.leader.name):
        return (), ""
    probe_id = _probe_id(state)
    if context.view.runtime.probe_result is not None and context.view.runtime.probe_result.probe_id == probe_id:
        return (), ""
    return tuple(ProbeTarget(p.role, p.index, p.ip) for p in peers), probe_id


def unresponsive_peer(context: PlanContext, state: GangState) -> PodSummary | None:
    """Return the running replica that did not answer the probe; None if all did, or none was probed."""
    probe_result = context.view.runtime.probe_result
    if probe_result is None or probe_result.probe_id != _probe_id(state):
        return None
    unresponsive = frozenset(probe_result.unresponsive)
    return next((p for p in _surviving_peers(state) if p.replica in unresponsive), None)
