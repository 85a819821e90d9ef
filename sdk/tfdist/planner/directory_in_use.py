"""A job does not start while another one writes its checkpoints or exported models into a directory of it.

Of several jobs with one directory the one whose training has begun goes on, also between two attempts; of those that
have not begun, the oldest begins. The others have no pods: they begin when the directory is free. Jobs of other
namespaces, clusters and local runs are recognized by the trainer only, by a heartbeat in the directory (ADR 0031).
"""

from collections.abc import Mapping
from typing import Final

from tfdist.api.status import ConditionType, TFDistJobStatus
from tfdist.outcome import find_condition
from tfdist.planner.context import PlanContext
from tfdist.planner.plan import GangFailure
from tfdist.reasons import ConditionReason
from tfdist.render.gang import GangName
from tfdist.render.written_directories import DirectoryField
from tfdist.status.conditions import is_true

_REASONS: Final[Mapping[DirectoryField, ConditionReason]] = {
    DirectoryField.CHECKPOINT: ConditionReason.CHECKPOINT_DIRECTORY_IN_USE,
    DirectoryField.EXPORT: ConditionReason.EXPORT_DIRECTORY_IN_USE,
}
"""By the field of the job that waits."""


def directory_in_use(context: PlanContext) -> GangFailure | None:
    """Return why the job may not begin; None if it may, or has begun."""
    user = context.view.directory_user
    # A job that has begun is never stopped, whoever came later (ADR 31).
    if user is None or has_begun(context.view.status):
        return None
    written = user.written
    text = (
        f"{written.field}: {written.place} is in use by the job {user.name}, as its {user.field}; wait until that job "
        "has ended, delete it, or choose another directory"
    )
    return GangFailure(_REASONS[written.field], text)


def has_begun(status: TFDistJobStatus) -> bool:
    """Return whether the training of a job has begun; not while it waits for a directory, or is suspended."""
    ready = find_condition(status, ConditionType.PODS_READY)
    waits = ready is not None and ready.reason in _REASONS.values()
    begun = str(GangName.TRAINING) in (status.gangs or {})
    return begun and not waits and not is_true(status, ConditionType.SUSPENDED)
