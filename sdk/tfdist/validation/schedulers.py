"""Detects pods that name another scheduler than the one that the job requests."""

from collections.abc import Iterator

from tfdist.api.v1 import TFDistJob
from tfdist.render.gang import gangs
from tfdist.render.gang_systems import VOLCANO_SCHEDULER
from tfdist.validation.errors import FieldError
from tfdist.validation.field_source import pod_field, pod_field_path


def scheduler_problems(job: TFDistJob) -> Iterator[FieldError]:
    """Yield each `schedulerName` of a job that contradicts `gang: Volcano`; the job overrides the installation's."""
    if job.spec.scheduling.gang != "Volcano":
        return
    errors: dict[FieldError, None] = {}
    for role in dict.fromkeys(member.role for gang in gangs(job) for member in gang.members):
        name = pod_field(job, role, "schedulerName") or VOLCANO_SCHEDULER
        if name != VOLCANO_SCHEDULER:
            text = (
                f"{name} contradicts scheduling.gang: Volcano, whose scheduler is {VOLCANO_SCHEDULER}; "
                "remove schedulerName, or change gang"
            )
            errors[FieldError(pod_field_path(job, role, "schedulerName"), text)] = None
    yield from errors
