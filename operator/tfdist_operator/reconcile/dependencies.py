"""The collaborators of reconciling, built once by the composition root."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tfdist.api.gang_system import Availability, GangSystem
from tfdist.render.owned_kind import OwnedKind
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.kueue import Kueue
from tfdist_operator.cache.owned_cache import OwnedObjectCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.cache.runtime_state import RuntimeStateStore
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue
from tfdist_operator.replica_reports.diagnosis import Diagnosis
from tfdist_operator.requests.owned_requests import OwnedRequests
from tfdist_operator.requests.resources import ResourceClient
from tfdist_operator.requests.workload_requests import WorkloadRequests


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Caches, clients and clocks that the reconciler and the parts of its executor share."""

    jobs: JobCache
    pods: PodCache
    owned: Mapping[OwnedKind, OwnedObjectCache]
    systems: Callable[[], Mapping[GangSystem, Availability]]
    """Returns whether the API server serves the kinds of each gang scheduler."""
    kueue: Kueue
    queue: WorkQueue[NamespacedName]
    resources: ResourceClient
    owned_requests: OwnedRequests
    workload_requests: WorkloadRequests
    states: RuntimeStateStore
    diagnosis: Diagnosis
    controller: str
    """Label value of this controller on owned objects."""
    expensive: WorkQueue[NamespacedName] = field(default_factory=WorkQueue)
    """The queue of jobs that are planned in a thread."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    """In seconds."""
