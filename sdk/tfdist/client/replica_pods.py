"""The pods of a job's replicas, and of its TensorBoard, and the state of each in a few words."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tfdist.client.api_server import ApiServer, Json, pods_path
from tfdist.client.errors import Invalid, NotFound, NotPossible
from tfdist.client.job import Job
from tfdist.contract import MAIN_CONTAINER, Role, replica_name
from tfdist.printable import printable
from tfdist.render.names import ATTEMPT_LABEL, INDEX_LABEL, JOB_LABEL, JOB_UID_LABEL, ROLE_LABEL, TENSORBOARD_LABEL

_ORDER: Final = tuple(map(str, Role))
_REPLICA: Final = re.compile(rf"({'|'.join(_ORDER)})-(0|[1-9]\d*)")


@dataclass(frozen=True, slots=True)
class ReplicaPod:
    """The pod of a replica, or another pod of a job."""

    replica: str
    """Such as `worker-0`, or `tensorboard`."""
    pod: Json

    @property
    def name(self) -> str:
        """Name of the pod."""
        return str(self.pod["metadata"]["name"])

    @property
    def is_running(self) -> bool:
        """Whether the container `tensorflow` runs; of a pod without one, whether the pod does."""
        state = (_main(self.pod) or {}).get("state")
        return self.pod["status"].get("phase") == "Running" and (state is None or state.get("running") is not None)

    @property
    def is_ready(self) -> bool:
        """Whether the pod is ready, and is not being deleted."""
        conditions = self.pod["status"].get("conditions") or ()
        ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
        return ready and not self.pod["metadata"].get("deletionTimestamp")

    @property
    def state(self) -> str:
        """State in a few words, such as `Pending: ImagePullBackOff: ...` or `Failed: exit code 1`."""
        phase = str(self.pod["status"].get("phase") or "Unknown")
        state = (_main(self.pod) or {}).get("state") or {}
        if waiting := state.get("waiting"):
            details = [waiting.get("reason"), waiting.get("message")]
        elif terminated := state.get("terminated"):
            details = [f"exit code {terminated.get('exitCode')}"]
        elif self.pod["metadata"].get("deletionTimestamp"):
            details = ["it is being deleted"]
        else:
            details = [_unscheduled(self.pod)]
        return printable(": ".join([phase, *(" ".join(str(detail).split()) for detail in details if detail)]))


def is_replica(word: str) -> bool:
    """Return whether a word names a replica: `worker-0`."""
    return _REPLICA.fullmatch(word) is not None


def leader(job: Job) -> str:
    """Return the replica that leads the training: the chief, otherwise worker 0."""
    return replica_name(Role.CHIEF if "chief" in job.spec else Role.WORKER, 0)


def pods_of(api: ApiServer, namespace: str, name: str) -> list[Json]:
    """Return the pods of a job by its name, including kept pods of earlier attempts and of deleted jobs of this name.

    Raises:
        ClientError: the request failed.
    """
    return list(api.items(pods_path(namespace), {"labelSelector": f"{JOB_LABEL}={name}"}))


def current_pods(api: ApiServer, job: Job) -> list[ReplicaPod]:
    """Return the newest pod of each replica, by role and index.

    Raises:
        ClientError: the request failed.
    """
    newest: dict[str, Json] = {}
    for pod in sorted(_list(api, job, f"{JOB_UID_LABEL}={job.uid},{ROLE_LABEL}"), key=_attempt):
        labels = pod["metadata"]["labels"]
        newest[replica_name(labels[ROLE_LABEL], labels.get(INDEX_LABEL, "0"))] = pod
    return [ReplicaPod(replica, newest[replica]) for replica in sorted(newest, key=_position)]


def replica_pod(api: ApiServer, job: Job, replica: str | None = None) -> ReplicaPod:
    """Return the newest pod of a replica, by default of the replica that leads, or after training of the evaluation.

    Raises:
        NotFound: it has no pod.
        Invalid: no replica can have this name.
        ClientError: the request failed.
    """
    if replica is not None and not is_replica(replica):
        raise Invalid(f"{replica}: not the name of a replica; write one such as {leader(job)}")
    pods_by_replica = {pod.replica: pod for pod in current_pods(api, job)}
    candidates = [replica] if replica else [leader(job), replica_name(Role.EVALUATION, 0)]
    pods = [pods_by_replica[name] for name in candidates if name in pods_by_replica]
    if not pods:
        raise NotFound(f"{candidates[0]} of {job.name} has no pod: {_without_pod(job, pods_by_replica)}")
    return next((pod for pod in pods if pod.is_running), pods[0])


def running_pod(api: ApiServer, job: Job, replica: str | None = None) -> ReplicaPod:
    """Return the pod that `replica_pod` returns, if it runs.

    Raises:
        NotPossible: it does not run.
        NotFound: it has no pod.
        ClientError: the request failed.
    """
    pod = replica_pod(api, job, replica)
    if not pod.is_running:
        raise NotPossible(f"{pod.replica} of {job.name} does not run: pod {pod.name} is {pod.state}")
    return pod


def tensorboard_pod(api: ApiServer, job: Job) -> ReplicaPod | None:
    """Return the newest pod of the job's TensorBoard, ready ones first.

    Raises:
        ClientError: the request failed.
    """
    pods = [ReplicaPod("tensorboard", pod) for pod in _list(api, job, f"{TENSORBOARD_LABEL}={job.uid}")]
    return max(
        pods, key=lambda candidate: (candidate.is_ready, candidate.pod["metadata"]["creationTimestamp"]), default=None
    )


def _list(api: ApiServer, job: Job, selector: str) -> Iterable[Json]:
    return api.items(pods_path(job.namespace), {"labelSelector": selector})


def _attempt(pod: Json) -> tuple[int, str]:
    number = str(pod["metadata"]["labels"].get(ATTEMPT_LABEL, "0"))
    return int(number) if number.isdecimal() else 0, str(pod["metadata"]["creationTimestamp"])


def _position(replica: str) -> tuple[int, int]:
    role, _, index = replica.rpartition("-")
    return _ORDER.index(role) if role in _ORDER else len(_ORDER), int(index) if index.isdecimal() else 0


def _main(pod: Json) -> Json | None:
    statuses = pod["status"].get("containerStatuses") or ()
    main_status: Json | None = next(
        (container_status for container_status in statuses if container_status["name"] == MAIN_CONTAINER), None
    )
    if (
        main_status is None
        and MAIN_CONTAINER not in {container["name"] for container in pod["spec"]["containers"]}
        and statuses
    ):
        main_status = statuses[0]
    return main_status


def _unscheduled(pod: Json) -> str:
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return ""


def _without_pod(job: Job, others: Iterable[str]) -> str:
    if names := ", ".join(others):
        return f"these have one: {names}"
    return f"the job is {job.phase}: {job.message}" if job.message else f"the job is {job.phase}"
