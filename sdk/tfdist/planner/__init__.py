"""Plans what to do for one job, from its observed state and the time. Pure: no I/O, no clock, no randomness.

    inputs     JobView (StoredJob, RuntimeState, pods), now, Installation
                  |  job.plan
    context    PlanContext: the inputs, and what the decisions derive from them, such as GangState and SpecRevision
                  |  gang.plan_gang, for each gang: planned_restart, failure_policy (root_cause, peer_failure,
                  |  inplace_restart), progress_deadline, pod_rejection
    decisions  GangDecision: members to create, conditions, events, probes, or the GangFailure that ends the job
                  |  collected by PlanBuilder, with success_policy, evaluation, suspend, invalid_spec
    plan       Plan: the status (`tfdist.status`), pods and objects to create, patch and delete (`tfdist.desired`),
               events, when to reconcile again

A finished job takes a path of its own: `finished_job` (cleanPodPolicy, ttlSecondsAfterFinished).

`plan` is level-triggered: it may be called with any view at any time. It does not plan again what is done, and the next
plan completes one that was executed in part or whose effects are not observed yet.
"""

from tfdist.planner.job import plan
from tfdist.planner.plan import Event, Plan

__all__ = ["Event", "Plan", "plan"]
