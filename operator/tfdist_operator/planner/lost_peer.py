"""Whose loss it was, when replicas end because they have lost a peer and that peer has not been seen to fail.

The peer may have failed and its kubelet not have told so yet: that is waited for. Or it stands still, as under SIGSTOP,
on a node that is cut off, or in a system call that never returns: TensorFlow's heartbeats then end the others, and it
alone still runs. So those that run are asked, and one that does not answer is the cause.
"""

from collections.abc import Sequence
from typing import Final

from tfdist.contract import ExitCode
from tfdist_operator.observed.gang import GangState, member_of
from tfdist_operator.observed.pod import PodState, PodSummary
from tfdist_operator.observed.record import replica_name
from tfdist_operator.planner.look import Look
from tfdist_operator.planner.plan import Question

CAUSE_SECONDS: Final = 3.0
"""How long the failure is waited for that made others lose their peer."""


def _left_behind(state: GangState) -> Sequence[PodSummary]:
    """Return the replicas that run while all that were lost have lost a peer; none where anybody else was lost."""
    if state.vanished or any(p.exit_code != ExitCode.PEER_LOST or p.deleting or p.disrupted for p in state.lost):
        return ()
    return [p for p in state.pods if p.state is PodState.RUNNING]


def _about(state: GangState) -> str:
    return f"who was lost in attempt {state.attempt}"


def wait_for_the_cause(look: Look, state: GangState) -> float:
    """Return how long to wait for the failure that others followed from, in seconds.

    Kubelets report within a second or two, each for its own node: that a peer was lost may be known before that peer.
    """
    if not _left_behind(state):
        return 0.0
    since = max(look.seconds_since(p.finished_at) if p.finished_at else CAUSE_SECONDS for p in state.lost)
    return CAUSE_SECONDS - since if since >= 0 else 0.0


def questions(look: Look, state: GangState) -> tuple[tuple[Question, ...], str]:
    """Return who is to be asked, and what about; nobody where it is known, or the program reports nothing."""
    left, report = _left_behind(state), look.view.report
    if not left or report is None or report.content.attempt != state.record.attempt_of(state.gang.leader):
        return (), ""
    about = _about(state)
    if look.view.evidence is not None and look.view.evidence.about == about:
        return (), ""
    return tuple(Question(p.role, p.index, p.ip) for p in left), about


def silent_peer(look: Look, state: GangState) -> PodSummary | None:
    """Return the replica that still runs and did not answer; None where all answered, or none was asked."""
    evidence = look.view.evidence
    silent = evidence.silent if evidence and evidence.about == _about(state) else ()
    return next((p for p in _left_behind(state) if replica_name(member_of(p)) in silent), None)
