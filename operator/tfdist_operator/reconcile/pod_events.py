"""Reads the events of a pod that does not start, for the next plan."""

import logging

from tfdist.observed.job_view import KubeletWarning
from tfdist.planner.unexplained_pod import REREAD_SECONDS
from tfdist_operator.cache.job_cache import CachedJob
from tfdist_operator.kube.errors import ApiError
from tfdist_operator.reconcile.dependencies import Dependencies

log = logging.getLogger(__name__)


class PodEvents:
    """Reads events of pods: at most one request a minute for each job."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps

    async def read(self, job: CachedJob, name: str) -> None:
        """Read the newest warning of a pod. An error is only logged: the job starts without it."""
        state, pod = self._deps.states.get(job.key, job.uid), self._deps.pods.find(job.key, job.uid, name)
        if pod is None or self._deps.clock() - state.pod_events_read_at < REREAD_SECONDS:
            return
        state.pod_events_read_at = self._deps.clock()
        try:
            text = await self._deps.resources.newest_warning(job.key.namespace, pod.uid)
        except ApiError as error:
            log.warning("events of a pod were not read", extra={"job": "/".join(job.key), "error": str(error)})
            return
        warning = KubeletWarning(pod.uid, text) if text else None
        if warning != state.kubelet_warning:
            state.kubelet_warning = warning
            self._deps.queue.add(job.key)  # at once, so that the status reports it
