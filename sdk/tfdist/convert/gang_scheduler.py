"""Converts the gang scheduler of a TFJob: the scheduler that its pods name, or the one that its policy asks for."""

from collections.abc import Iterable
from typing import Final

from tfdist.convert.replicas import Replicas
from tfdist.convert.result import AddNote
from tfdist.convert.tfjob import SchedulingPolicy

_SYSTEMS: Final = {
    "volcano": "Volcano",
    "scheduler-plugins-scheduler": "Coscheduling",
    "scheduler-plugins": "Coscheduling",
    "coscheduling": "Coscheduling",
    "kai-scheduler": "KAI",
}
"""`scheduling.gang` by the name of a scheduler."""
_ASSUMED: Final = (
    "becomes scheduling.gang: Volcano, which must be installed; write Coscheduling if --gang-scheduler-name of the "
    "training-operator names a scheduler of scheduler-plugins, or Auto if that flag is not set"
)


def gang_scheduler(
    policy: SchedulingPolicy, replicas: Iterable[Replicas], gang_size: int, add_note: AddNote
) -> str | None:
    """Return `scheduling.gang`; None for the default, `Auto`.

    A TFJob's policy does not name the scheduler: a flag of the training-operator does.

    Args:
        policy: the TFJob's scheduling policy.
        replicas: its replicas.
        gang_size: number of replicas that train.
        add_note: adds a note to the result.
    """
    schedulers = {name for r in replicas if (name := r.template["spec"].get("schedulerName"))}
    if schedulers:
        systems = {_SYSTEMS.get(name) for name in schedulers}
        return systems.pop() if len(systems) == 1 else None
    if not _asks_for_gang(policy, gang_size):
        return None
    add_note("spec.runPolicy.schedulingPolicy", _ASSUMED)
    return "Volcano"


def _asks_for_gang(policy: SchedulingPolicy, gang_size: int) -> bool:
    """Return whether a policy asks for more than a priority: a gang that is larger than the job has no effect."""
    size, limit = policy.min_available or 0, policy.schedule_timeout_seconds or 0
    return bool(policy.queue or policy.min_resources or 0 < size <= gang_size or limit > 0)
