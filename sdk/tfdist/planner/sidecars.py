"""Ends the sidecars of completed replicas: ordinary containers, which Kubernetes does not end by itself.

A pod whose container `tensorflow` has ended holds its resources until its last container ends. With an expired
`activeDeadlineSeconds` the kubelet ends all containers; the pod releases its resources and keeps its logs, exit codes
and termination messages. Its phase is `Failed` (`DeadlineExceeded`) then, also after a success: the controller reads
the state of the container and not the phase. The kubelet itself ends native sidecars (init containers with
`restartPolicy: Always`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

from tfdist.observed.pod import SIDECAR_DEADLINE_SECONDS, PodSummary
from tfdist.planner.plan import Patch

_DEADLINE: Final = {"spec": {"activeDeadlineSeconds": SIDECAR_DEADLINE_SECONDS}}


def stop_sidecars(pods: Sequence[PodSummary], deleted: Sequence[str] = ()) -> Iterator[Patch]:
    """Yield patches that make the kubelet end the sidecars of completed replicas; none for pods that are deleted."""
    for pod in pods:
        if pod.sidecars_run and not pod.has_deadline and not pod.deleting and pod.name not in deleted:
            yield Patch(pod.name, _DEADLINE)
