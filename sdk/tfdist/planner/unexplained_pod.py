"""Pods that are assigned to a node and do not start, without a reason in their status.

A volume whose ConfigMap or Secret does not exist keeps a pod in `ContainerCreating`: only the kubelet's event has the
reason. The controller reads the events of one such pod, not before it has waited, and at most once a minute.

A pod without a node and without the condition `PodScheduled` has not been tried by any scheduler: its PodGroup lacks
members, or no scheduler has the name that it asks for.
"""

import re
from typing import Final

from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import PodState, PodSummary
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import GangFailure
from tfdist.reasons import ConditionReason
from tfdist.render import names
from tfdist.scheduling.choice import scheduler_of

UNEXPLAINED_SECONDS: Final = 30.0
"""How long a pod may be in `ContainerCreating` before its events are read: volumes are attached in this time."""
REREAD_SECONDS: Final = 60.0
UNTRIED_SECONDS: Final = 60.0
"""How long a pod may wait for the first attempt to place it before the status reports it."""
_UNEXPLAINED: Final = frozenset({"ContainerCreating", "PodInitializing"})
_MISSING: Final = re.compile(r'(?:configmap|secret) "[^"]*" not found|references non-existent (?:config|secret) key')


def unexplained_pod(context: PlanContext, state: GangState) -> PodSummary | None:
    """Return the first pod of a gang whose containers do not start within `UNEXPLAINED_SECONDS`; None without one."""
    return next((p for p in state.pods if _waits(p) and _age(context, p) >= UNEXPLAINED_SECONDS), None)


def seconds_until_unexplained(context: PlanContext, state: GangState) -> float | None:
    """Return when to reconcile again for `unexplained_pod`, or for newer events; None if no pod waits so."""
    ages = [_age(context, p) for p in state.pods if _waits(p)]
    if not ages:
        return None
    remaining = UNEXPLAINED_SECONDS - max(ages)
    return remaining if remaining > 0 else REREAD_SECONDS


def kubelet_problem(context: PlanContext, pod: PodSummary | None) -> GangFailure | None:
    """Return why a pod does not start, if its events report a missing ConfigMap or Secret, or a key of one."""
    text = kubelet_text(context, pod)
    if pod is None or not _MISSING.search(text):
        return None
    remedy = "create it, or correct the volume"
    return GangFailure(ConditionReason.CONFIG_ERROR, f"{pod.replica} cannot start: {text}; {remedy}")


def kubelet_text(context: PlanContext, pod: PodSummary | None) -> str:
    """Return the newest warning event of a pod; "" if none is known."""
    warning = context.view.runtime.kubelet_warning
    return warning.text if warning is not None and pod is not None and warning.pod_uid == pod.uid else ""


def _waits(pod: PodSummary) -> bool:
    waits = pod.state is PodState.PENDING and pod.reason in _UNEXPLAINED
    return waits and bool(pod.node and pod.created_at) and not pod.deleting


def _age(context: PlanContext, pod: PodSummary) -> float:
    """Return for how many seconds a pod has had its node: until then the scheduler reports why it waits."""
    return context.seconds_since(pod.scheduled_at or pod.created_at)


def untried_pod(context: PlanContext, state: GangState) -> PodSummary | None:
    """Return the first pod that no scheduler has tried to place within `UNTRIED_SECONDS`; None without one."""
    untried = (p for p in state.pods if _is_untried(p))
    return next((p for p in untried if context.seconds_since(p.created_at) >= UNTRIED_SECONDS), None)


def seconds_until_untried(context: PlanContext, state: GangState) -> float | None:
    """Return when to reconcile again for `untried_pod`; None if no pod waits so, or one is found already."""
    ages = [context.seconds_since(p.created_at) for p in state.pods if _is_untried(p)]
    remaining = UNTRIED_SECONDS - max(ages, default=UNTRIED_SECONDS)
    return remaining if remaining > 0 else None


def untried_text(context: PlanContext, state: GangState) -> str:
    """Return why a pod of a gang may not have been tried, and which command shows more."""
    scheduler = scheduler_of(state.record)
    if scheduler is None:
        return "no scheduler has tried to place it: perhaps no scheduler with its schedulerName runs"
    group = names.pod_group(context.job.metadata.name, state.gang.name, state.record.last_full_restart)
    return (
        f"no scheduler has tried to place it: its PodGroup {group} may lack members, see "
        f"kubectl describe -n {context.job.metadata.namespace} {scheduler.kind.resource} {group}"
    )


def _is_untried(pod: PodSummary) -> bool:
    has_condition = bool(pod.node or pod.reason)
    return pod.state is PodState.PENDING and not has_condition and bool(pod.created_at) and not pod.deleting
