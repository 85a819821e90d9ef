"""The collaborators of reconciling sweeps, built once by the composition root."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.sweep_cache import SweepCache
from tfdist_operator.kube.clock import utc_now
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue
from tfdist_operator.requests.resources import ResourceClient
from tfdist_operator.sweeps.requests import SweepRequests


@dataclass(frozen=True, slots=True)
class SweepDependencies:
    """Caches, clients and clocks."""

    sweeps: SweepCache
    jobs: JobCache
    queue: WorkQueue[NamespacedName]
    requests: SweepRequests
    resources: ResourceClient
    now: Callable[[], datetime] = utc_now
    clock: Callable[[], float] = time.monotonic
    """In seconds."""
