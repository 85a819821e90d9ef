"""The objects of a job other than pods: those that must exist, and those that are obsolete. Others are not touched."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from tfdist.api.gang_status import GangStatus
from tfdist.api.gang_system import GangSystem
from tfdist.api.v1 import TFDistJob
from tfdist.desired.owned_kinds import DEPLOYMENT, NETWORK_POLICY, POD_GROUPS, SERVICE, kind_of
from tfdist.observed.pod import PodSummary
from tfdist.render import names
from tfdist.render.gang import GangName, gangs
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest
from tfdist.render.network_policy import network_policy
from tfdist.render.owned_kind import OwnedKind
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.service import service
from tfdist.render.tensorboard import tensorboard
from tfdist.scheduling.choice import choose, group_fields, requested_queue

_REMOVED_POD_GROUPS: Final = 10
"""PodGroups of this many earlier attempts are deleted: older ones are deleted already."""


class ObjectName(NamedTuple):
    """A Service, NetworkPolicy, PodGroup or Deployment in the job's namespace."""

    kind: OwnedKind
    name: str


def objects(job: TFDistJob, default_image: str, attempt: int = 0, cluster_domain: str = "") -> list[Manifest]:
    """Return all objects of a job in the order of creation, as `tfdist render` prints them.

    Args:
        job: the job.
        default_image: image of replicas for which the job sets none.
        attempt: number of the attempt, from 0.
        cluster_domain: appended to addresses, such as `cluster.local`.
    """
    installation = Installation(default_image, cluster_domain)
    current = Attempt(attempt, attempt)
    groups, pods = [], []
    for gang in gangs(job):
        scheduler = choose(job, gang, installation, served=frozenset())
        groups += [scheduler.pod_group(job, gang, attempt, installation)] if scheduler else []
        state = GangStatus(last_full_restart=attempt, system=scheduler.system if scheduler else GangSystem.NONE)
        fields = group_fields(job.metadata.name, gang, state)
        renderer = PodRenderer(job, gang, installation, state, group_fields=fields)
        pods += [renderer.pod(member, current) for member in gang.members]
    queue = requested_queue(job)
    queued = [queue.manifest(job, installation)] if queue else []
    return [*queued, *_network(job, attempt, installation), *groups, *pods, *tensorboard_objects(job, installation)]


def network_objects(
    job: TFDistJob, generation: int, installation: Installation, pods: Iterable[PodSummary], *, creates: bool
) -> tuple[Manifest, ...]:
    """Return the Service for DNS names and the NetworkPolicy for isolation; none without pods that need them.

    The Service does not select an address generation before that has pods, or one `creates` them now: terminating
    pods of the generation before resolve each other's addresses while they save.
    """
    # An early switch would cut the pods that still save off from each other.
    is_needed = creates or any(p.generation == str(generation) and not p.ended for p in pods)
    return _network(job, generation, installation) if is_needed else ()


def _network(job: TFDistJob, generation: int, installation: Installation) -> tuple[Manifest, ...]:
    policies = (network_policy(job, installation),) if _is_isolated(job) else ()
    return (service(job, generation), *policies)


def tensorboard_objects(job: TFDistJob, installation: Installation) -> tuple[Manifest, ...]:
    """Return the objects of the job's TensorBoard; the job continues if they are rejected."""
    board = job.spec.tensor_board
    return tensorboard(job, board, installation) if board else ()


def obsolete_pod_groups(
    job: str, records: Mapping[GangName, GangStatus], needed: Collection[Manifest]
) -> Iterator[ObjectName]:
    """Yield the PodGroups of a job, except the `needed` ones: an attempt may have another scheduler."""
    required = {ObjectName(kind_of(group), group["metadata"]["name"]) for group in needed}
    for gang, record in records.items():
        for attempt in range(max(0, record.last_full_restart - _REMOVED_POD_GROUPS), record.last_full_restart + 1):
            candidates = (ObjectName(kind, names.pod_group(job, gang, attempt)) for kind in POD_GROUPS.values())
            yield from (name for name in candidates if name not in required)


def obsolete_objects(job: TFDistJob) -> Iterator[ObjectName]:
    """Yield the objects that the specification of a running job does not require."""
    name = job.metadata.name
    if not _is_isolated(job):
        yield ObjectName(NETWORK_POLICY, name)
    if job.spec.tensor_board is None:
        yield from _tensorboard_objects(name)
    elif not _is_isolated(job):
        yield ObjectName(NETWORK_POLICY, names.tensorboard(name))


def obsolete_after_end(job: str, *, pods_exist: bool, tensorboard_expired: bool) -> Iterator[ObjectName]:
    """Yield the objects that a finished job, given by its name, does not need; none is created again."""
    if not pods_exist:
        yield from (ObjectName(SERVICE, job), ObjectName(NETWORK_POLICY, job))
    if tensorboard_expired:
        yield from _tensorboard_objects(job)


def _tensorboard_objects(job: str) -> Iterator[ObjectName]:
    return (ObjectName(kind, names.tensorboard(job)) for kind in (DEPLOYMENT, SERVICE, NETWORK_POLICY))


def _is_isolated(job: TFDistJob) -> bool:
    return job.spec.network_policy == "Enabled"
