"""Revisions of the specification: all pods of one attempt of a gang use the same revision.

A change takes effect with the next attempt. Until then the status keeps the specification of the running pods, so that
a controller that starts later can replace one of them. Where it is not known, the gang restarts as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import MAX_KEPT_SPECIFICATION
from tfdist.api.v1 import TFDistJob
from tfdist.observed.job_view import JobView
from tfdist.render.gang import GangName
from tfdist.status.phase import training_succeeded


@dataclass(frozen=True, slots=True)
class SpecRevision:
    """A valid specification for new attempts: the job, its generation, and the fingerprint of its pods."""

    job: TFDistJob
    generation: int
    template: str

    def differs_from(self, record: GangStatus) -> bool:
        """Return whether an attempt has another revision; one without a recorded revision has not."""
        is_recorded = bool(record.template or record.generation)
        return is_recorded and record.template != self.template and record.generation != self.generation


def retained_specifications(view: JobView, gangs: Mapping[str, GangStatus]) -> dict[str, str]:
    """Return `status.specifications`: what running gangs use and the newest differs from, by generation.

    A specification that is too long is not kept: without it the gang restarts as a whole instead of one pod.
    """
    stored = view.status.specifications or {}
    completed = {str(GangName.TRAINING)} if training_succeeded(view.status) else set()
    generations = {gang.generation for name, gang in gangs.items() if name not in completed}
    newest = view.generation if not view.problems else 0
    result = {}
    for generation in sorted(generations - {0, newest}):
        text = stored.get(str(generation)) or _text(view.stored.older.get(generation))
        if text and len(text) <= MAX_KEPT_SPECIFICATION:
            result[str(generation)] = text
    return result


def _text(job: TFDistJob | None) -> str:
    return job.spec.model_dump_json(by_alias=True, exclude_none=True) if job else ""
