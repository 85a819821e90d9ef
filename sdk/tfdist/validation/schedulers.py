"""Detects pods that name another scheduler than the one that the job requests."""

from collections.abc import Iterator

from tfdist.api.v1 import TFDistJob
from tfdist.render.gang import gangs
from tfdist.scheduling.choice import requested_scheduler
from tfdist.validation.errors import FieldError
from tfdist.validation.field_source import pod_field, pod_field_path


def scheduler_problems(job: TFDistJob) -> Iterator[FieldError]:
    """Yield each `schedulerName` of a job that contradicts `scheduling.gang`; the job overrides the installation's."""
    scheduler = requested_scheduler(job)
    if scheduler is None or not scheduler.only_scheduler:
        return
    errors: dict[FieldError, None] = {}
    for role in dict.fromkeys(member.role for gang in gangs(job) for member in gang.members):
        name = pod_field(job, role, "schedulerName") or scheduler.only_scheduler
        if name != scheduler.only_scheduler:
            text = (
                f"{name} contradicts scheduling.gang: {scheduler.system}, whose scheduler is "
                f"{scheduler.only_scheduler}; remove schedulerName, or change gang"
            )
            errors[FieldError(pod_field_path(job, role, "schedulerName"), text)] = None
    yield from errors
