"""The pods of a job: those to create, and changes of existing ones.

Pods of earlier attempts, and of replicas that the job no longer has, are stale. A pod whose container `tensorflow`
has ended holds its resources until its last container ends. With an expired `activeDeadlineSeconds` the kubelet ends
all containers; the pod releases its resources and keeps its logs, exit codes and termination messages. Its phase is
`Failed` (`DeadlineExceeded`) then, also after a success: the controller reads the state of the container and not the
phase. The kubelet itself ends native sidecars (init containers with `restartPolicy: Always`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tfdist.api.gang_status import GangStatus
from tfdist.api.status import CheckpointStatus, TFDistJobStatus
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.observed.gang_state import GangState
from tfdist.observed.pod import SIDECAR_DEADLINE_SECONDS, PodState, PodSummary
from tfdist.render import names
from tfdist.render.gang import Gang, GangName, Member
from tfdist.render.installation import Installation
from tfdist.render.metadata import Manifest, owner_reference
from tfdist.render.pod import Attempt, PodRenderer
from tfdist.render.pod_placement import PodPlacement
from tfdist.scheduling.choice import group_fields
from tfdist.timestamps import as_rfc3339, parse_time

Records = Mapping[GangName, GangStatus]

_NOT_STARTED: Final = GangStatus()
_CHECKPOINT_SECONDS: Final = 60.0
_DEADLINE: Final = {"spec": {"activeDeadlineSeconds": SIDECAR_DEADLINE_SECONDS}}


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch of a pod."""

    pod: str
    body: Manifest


def address_generation(records: Records) -> int:
    """Return the label value by which the Service selects pods: it increases with each full restart of a gang."""
    return records[GangName.TRAINING].last_full_restart + records[GangName.EVALUATION].last_full_restart


def missing_pods(
    job: TFDistJob,
    state: GangState,
    members: Sequence[Member],
    records: Records,
    installation: Installation,
    placements: Mapping[Role, PodPlacement],
) -> Iterator[Manifest]:
    """Yield the pods of `members` in the current attempt of their gang; parts that they share are rendered once.

    Args:
        job: the specification of the attempt.
        state: the gang.
        members: the members without a pod.
        records: the records of all gangs of the job.
        installation: settings of the installation.
        placements: what the admission of the job adds to the pods of a role.
    """
    record, generation = state.record, address_generation(records)
    excluded = tuple(dict.fromkeys(node for other_record in records.values() for node in other_record.excluded_nodes))
    fields = group_fields(job.metadata.name, state.gang, record)
    renderer = PodRenderer(job, state.gang, installation, record, placements, fields)
    return (renderer.pod(m, Attempt(record.attempt_of(m.name), generation, excluded)) for m in members)


def ownership_patches(
    job: TFDistJob, pods: Iterable[PodSummary], stale: Iterable[PodSummary], generation: int
) -> Iterator[Patch]:
    """Yield patches that adopt orphans, and that remove the address of a replica that was replaced alone."""
    reference = {"metadata": {"ownerReferences": [owner_reference(job)]}}
    superseded = {p.name for p in stale}
    for pod in pods:
        if not pod.owned and not pod.deleting:
            yield Patch(pod.name, reference)
        # Its replacement has the same host name: two addresses would be answered for one replica.
        elif pod.name in superseded and not pod.ended and pod.generation == str(generation):
            yield Patch(pod.name, {"metadata": {"labels": {names.SERVICE_GENERATION_LABEL: None}}})


def sidecar_patches(pods: Iterable[PodSummary], deleted: Sequence[str]) -> Iterator[Patch]:
    """Yield patches that make the kubelet end the sidecars of completed replicas; none for pods that are deleted."""
    deleted_names = frozenset(deleted)
    for pod in pods:
        # Sidecars keep the GPU of a completed replica until they end (ADR 24).
        if pod.sidecars_run and not pod.has_deadline and not pod.deleting and pod.name not in deleted_names:
            yield Patch(pod.name, _DEADLINE)


def checkpoint_patch(leader: PodSummary | None, checkpoint: CheckpointStatus | None) -> Iterator[Patch]:
    """Yield the patch that sets the time of the last checkpoint on the leader's pod; at most one a minute of training.

    A scheduler that must preempt a job loses least work with the job of the newest checkpoint (kueue issue 477).
    """
    time = as_rfc3339((checkpoint.time if checkpoint else None) or "")
    if leader is None or leader.state is not PodState.RUNNING or leader.deleting or not time:
        return
    previous = leader.checkpoint_at
    if not previous or (parse_time(time) - parse_time(previous)).total_seconds() >= _CHECKPOINT_SECONDS:
        yield Patch(leader.name, {"metadata": {"annotations": {names.CHECKPOINT_ANNOTATION: time}}})


def stale_pods(gangs: Iterable[Gang], records: Records, pods: Iterable[PodSummary]) -> list[PodSummary]:
    """Return the stale pods among `pods` of a job with these gangs; a gang without a record has none."""
    of_role = {
        role: (size, records.get(gang.name, _NOT_STARTED)) for gang in gangs for role, size in gang.sizes().items()
    }
    return [p for p in pods if _is_stale(p, *of_role.get(p.role, (0, _NOT_STARTED)))]


def _is_stale(pod: PodSummary, replicas: int, record: GangStatus) -> bool:
    """Return whether a pod is of an earlier attempt, or of a replica that its role no longer has."""
    return pod.index >= replicas or pod.attempt < record.attempt_of(pod.replica)


def pods_to_prune(job: TFDistJob, status: TFDistJobStatus, stale: Sequence[PodSummary]) -> list[PodSummary]:
    """Return the ended stale pods beyond `keepFailedPods`; `status` names the root causes.

    Failed pods are kept longest, newest first, and within an attempt the root cause: its log is the useful one.
    """
    keep = job.spec.run_policy.keep_failed_pods
    ended = [p for p in stale if p.ended and not p.deleting]
    if len(ended) <= keep:
        return []
    causes = {f.pod for f in status.failures or () if f.root_cause}
    ended.sort(key=lambda p: (p.state is PodState.FAILED, p.attempt, p.name in causes, p.name))
    return ended[: len(ended) - keep]
