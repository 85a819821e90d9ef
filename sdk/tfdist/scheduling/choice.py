"""The table of all systems, and the choice: the gang scheduler that a job requests, or that `Auto` chooses."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import Strategy, TFDistJob
from tfdist.render import names
from tfdist.render.gang import Gang, GangName
from tfdist.render.installation import Installation
from tfdist.render.pod import GroupFields
from tfdist.render.template import role_template
from tfdist.scheduling.coscheduling import COSCHEDULING
from tfdist.scheduling.gang_scheduler import GangScheduler
from tfdist.scheduling.kai import KAI
from tfdist.scheduling.kueue import KUEUE
from tfdist.scheduling.native import NATIVE
from tfdist.scheduling.queue import Queue
from tfdist.scheduling.volcano import VOLCANO

GANG_SCHEDULERS: Final[Mapping[GangSystem, GangScheduler]] = MappingProxyType(
    {scheduler.system: scheduler for scheduler in (NATIVE, VOLCANO, COSCHEDULING, KAI)}
)
"""Every gang scheduler, in the order in which `Auto` chooses."""
QUEUES: Final[Mapping[GangSystem, Queue]] = MappingProxyType({queue.system: queue for queue in (KUEUE,)})
"""Every system that decides whether pods may exist."""
_DEFAULT_SCHEDULER: Final = "default-scheduler"
"""The scheduler of pods that name none."""
_MARKS: Final = ("labels", "annotations")


def scheduler_of(record: GangStatus) -> GangScheduler | None:
    """Return the gang scheduler of the pods of an attempt; None if they are scheduled one by one."""
    return GANG_SCHEDULERS.get(record.system)


def requested_scheduler(job: TFDistJob) -> GangScheduler | None:
    """Return the gang scheduler that `scheduling.gang` names; None for none, for `Auto`, and for a queue."""
    return GANG_SCHEDULERS.get(GangSystem(job.spec.scheduling.gang))


def requested_queue(job: TFDistJob) -> Queue | None:
    """Return the queue that `scheduling.gang` names; None for none, for `Auto`, and for a gang scheduler."""
    return QUEUES.get(GangSystem(job.spec.scheduling.gang))


def has_queues(system: GangSystem) -> bool:
    """Return whether a system is a gang scheduler with queues of its own."""
    return system in GANG_SCHEDULERS and GANG_SCHEDULERS[system].queue is not None


def _auto_with_queues() -> Iterator[GangScheduler]:
    """Yield the gang schedulers with queues that `Auto` may choose."""
    return (s for s in GANG_SCHEDULERS.values() if s.queue is not None and s.auto_scheduler)


def no_queues(queue: str) -> str:
    """Return why a job that names a queue waits if no system with queues is served, and what to do."""
    schedulers = {s.system: s.kind.resource for s in _auto_with_queues()}
    systems = {system: q.resource for system, q in QUEUES.items()} | schedulers
    return (
        f"scheduling.queue: {queue}: the API server serves neither {' nor '.join(systems.values())}; install "
        f"{' or '.join(systems)}, or remove queue"
    )


def group_fields(job: str, gang: Gang, record: GangStatus) -> Callable[[str], GroupFields]:
    """Return what gives a pod, by its `schedulerName`, the fields by which it belongs to the PodGroup of its gang.

    Args:
        job: name of the job.
        gang: one of its gangs.
        record: state of the gang, with its scheduler and its last full restart.
    """
    scheduler = scheduler_of(record)
    if scheduler is None:
        return lambda _: GroupFields()
    group = names.pod_group(job, gang.name, record.last_full_restart)
    return partial(scheduler.pod_fields, group)


def choose(
    job: TFDistJob, gang: Gang, installation: Installation, served: AbstractSet[GangSystem]
) -> GangScheduler | None:
    """Return the gang scheduler of the pods of a gang that starts now; None if they are scheduled one by one.

    Its kinds may not be served: then the job waits for them.

    Args:
        job: the job.
        gang: one of its gangs. A single replica is a gang only if it waits in a queue of its scheduler.
        installation: its pod defaults may name another scheduler.
        served: the systems whose kinds the API server serves.
    """
    is_open = job.spec.scheduling.gang in {"Auto", *QUEUES}
    scheduler = _auto(job, gang, installation, served) if is_open else requested_scheduler(job)
    # A single replica is its own gang, but in a queue it must use its quota too (ADR 37).
    is_single = gang.name is GangName.EVALUATOR or len(gang.members) == 1
    return None if is_single and scheduler is not None and scheduler.queue is None else scheduler


def _auto(
    job: TFDistJob, gang: Gang, installation: Installation, served: AbstractSet[GangSystem]
) -> GangScheduler | None:
    """Return the gang scheduler that `Auto` chooses; a job with a queue waits for the system of the queue.

    Pods of a job that a queue admits are scheduled by the gang scheduler that is chosen without a queue.
    """
    scheduling = job.spec.scheduling
    # A queue is waited for: without it the job would run outside of the quota of its team (ADR 37).
    if scheduling.queue and scheduling.gang == "Auto" and not QUEUES.keys() & served:
        return next(_auto_with_queues())
    # Independent replicas gain nothing by starting together.
    if job.spec.strategy is Strategy.INDEPENDENT and scheduling.min_available is None:
        return None
    templates = tuple(_templates(job, gang, installation))
    if any(s.names_group(template) for s in GANG_SCHEDULERS.values() for template in templates):
        return None  # the user defines the PodGroup
    # Only one scheduler can place a whole gang.
    requested = {pod["spec"].get("schedulerName") or _DEFAULT_SCHEDULER for pod in templates}
    candidates = (s for s in GANG_SCHEDULERS.values() if requested == {s.auto_scheduler} and s.system in served)
    return next(candidates, None)


def _templates(job: TFDistJob, gang: Gang, installation: Installation) -> Iterator[dict[str, Any]]:
    """Yield the template of each role of a gang, merged with the pod defaults as far as scheduling is concerned."""
    defaults = installation.pod_defaults
    for role in dict.fromkeys(member.role for member in gang.members):
        template = role_template(job, role)
        levels = (defaults.get("metadata", {}), template.get("metadata", {}))
        metadata = {kind: {k: v for level in levels for k, v in level.get(kind, {}).items()} for kind in _MARKS}
        yield {"metadata": metadata, "spec": {**defaults.get("spec", {}), **template.get("spec", {})}}
