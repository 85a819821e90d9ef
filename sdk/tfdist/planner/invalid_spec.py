"""A running job that becomes invalid, by an edit or by an upgrade, continues with its last valid specification.

The valid limits of the newest specification apply: suspension, deadlines and clean-up work. Where no valid one is
known, running pods continue, and none is created until the specification is corrected.
"""

from datetime import datetime
from typing import Final

from tfdist.api.status import ConditionType
from tfdist.observed.gang_record import stored_records
from tfdist.observed.job_view import JobView
from tfdist.outcome import find_condition
from tfdist.planner import pod_rejection
from tfdist.planner.builder import PlanBuilder
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import Event
from tfdist.planner.revision import SpecRevision
from tfdist.reasons import ConditionReason, EventReason
from tfdist.render.installation import Installation
from tfdist.status.conditions import Condition, is_true
from tfdist.status.phase import is_suspended_or_suspending
from tfdist.validation.errors import summary

_AT_ONCE: Final = ("run_policy", "network_policy", "network_policy_ingress")
"""Fields of an invalid specification that apply if they are valid themselves."""


def context_of_invalid_job(view: JobView, now: datetime, installation: Installation) -> PlanContext | None:
    """Return the context of an invalid job that has started; None for one that has not."""
    records = stored_records(view.status).values()
    if view.stored.partial is None or not records:
        return None
    valid_records = [record for record in records if record.generation in view.stored.older]
    revision = None
    job = view.stored.partial
    # The newest valid specification that a gang runs with; limits of the invalid one apply at once (ADR 22).
    if valid_records:
        newest = max(valid_records, key=lambda record: record.generation)
        job = view.stored.older[newest.generation]
        limits = {name: getattr(view.stored.partial.spec, name) for name in _AT_ONCE}
        job = job.model_copy(update={"spec": job.spec.model_copy(update=limits)})
        revision = SpecRevision(job, newest.generation, newest.template)
    return PlanContext(view.with_job(job), job, now, installation, revision)


def stays_suspended(context: PlanContext) -> bool:
    """Return whether a suspended job stays suspended because its specification is invalid: a resume starts pods."""
    return bool(context.view.problems) and is_suspended_or_suspending(context.view.status)


def set_validity(context: PlanContext, builder: PlanBuilder) -> None:
    """Set the condition `Invalid`: True with the specification that the job continues with, False once it is valid.

    Warnings about a valid specification are published as an event.
    """
    stored = find_condition(context.view.status, ConditionType.INVALID)
    if not context.view.problems:
        _publish_warnings(context.view, builder)
        if is_true(context.view.status, ConditionType.INVALID) and not pod_rejection.is_rejected(context.view):
            builder.set_conditions(
                Condition(ConditionType.INVALID, False, ConditionReason.SPEC_VALID, "the specification is valid")
            )
        return
    message = f"{summary(context.view.problems)}; {_continuation_text(context)}"
    reason = ConditionReason.INVALID_UPDATE
    if stays_suspended(context) and not context.spec.run_policy.suspend:
        reason = ConditionReason.INVALID_SPEC
    builder.set_conditions(Condition(ConditionType.INVALID, True, reason, message))
    if stored is None or stored.status != "True" or stored.observed_generation != context.view.generation:
        builder.record_event(Event(EventReason.INVALID, message, warning=True, identity=str(context.view.generation)))


def _publish_warnings(view: JobView, builder: PlanBuilder) -> None:
    """Publish the warnings with the first status of a generation, so that later reconciles do not repeat them."""
    if view.stored.warnings and view.status.observed_generation != view.generation:
        text = "; ".join(map(str, view.stored.warnings))
        builder.record_event(Event(EventReason.SPEC_WARNING, text, warning=True, identity=str(view.generation)))


def _continuation_text(context: PlanContext) -> str:
    if is_suspended_or_suspending(context.view.status):
        return "the job stays suspended until the specification is corrected"
    if context.revision is not None:
        return f"the job continues with the specification of generation {context.revision.generation}"
    return "running pods continue; no pod is created until the specification is corrected"
