"""A job does not start while another one writes checkpoints into its directory.

Of two jobs with one directory the one whose training has begun goes on, also between two attempts; of several that
have not begun, the oldest begins. The others have no pods: they begin when the directory is free. Jobs of other
namespaces, clusters and local runs are recognized by the trainer only, by a heartbeat in the directory (ADR 0031).
"""

from tfdist.api.status import ConditionType, TFDistJobStatus
from tfdist.observed.job_view import DirectoryUser
from tfdist.outcome import find_condition
from tfdist.planner.context import PlanContext
from tfdist.planner.decision import Failure
from tfdist.reasons import ConditionReason
from tfdist.render.checkpoint_location import checkpoint_location
from tfdist.render.gang import GangName
from tfdist.render.replica_job import expand_placeholders
from tfdist.status.conditions import is_true
from tfdist.status.phase import is_terminal


def directory_in_use(context: PlanContext) -> Failure | None:
    """Return why the job may not begin; None if it may, or has begun."""
    users = context.view.directory_users
    if not users or has_begun(context.view.status):
        return None
    others = [user for user in users if _precedes(user)]
    checkpoint = context.spec.checkpoint
    location = checkpoint_location(context.job)
    if not others or checkpoint is None or location is None:
        return None
    other = max(others, key=lambda user: has_begun(user.status))  # of several that wait, each names the one that runs
    directory = expand_placeholders(context.job, checkpoint.directory)
    place = f"{directory} on the {location.storage}" if location.storage else directory
    text = (
        f"checkpoint.directory: {place} is written by the job {other.name}; wait for its end, delete it, or choose "
        "another directory"
    )
    return Failure(ConditionReason.CHECKPOINT_DIRECTORY_IN_USE, text)


def _precedes(user: DirectoryUser) -> bool:
    """Return whether another job has precedence: it has begun, or it is older and can begin."""
    if is_terminal(user.status):
        return False
    return has_begun(user.status) or (user.is_older and not user.suspended)


def has_begun(status: TFDistJobStatus) -> bool:
    """Return whether the training of a job has begun; not while it waits for a directory, or is suspended."""
    ready = find_condition(status, ConditionType.PODS_READY)
    waits = ready is not None and ready.reason == ConditionReason.CHECKPOINT_DIRECTORY_IN_USE
    begun = str(GangName.TRAINING) in (status.gangs or {})
    return begun and not waits and not is_true(status, ConditionType.SUSPENDED)
