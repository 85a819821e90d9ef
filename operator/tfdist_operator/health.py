"""What a probe and Prometheus ask: /healthz, /readyz, /metrics.

Healthy means that the pod watch has been heard of lately: a controller whose watch has died in silence is
restarted by its probe instead of looking well for days.
"""

import time
from collections import Counter
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tfdist_operator import metrics
from tfdist_operator.kube.informer import PodInformer
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.kube.queue import KeyedQueue

WATCH_SILENCE_SECONDS: Final = 300.0


class Probes:
    """Answers on the controller's port from what its parts say of themselves."""

    def __init__(self, informer: PodInformer, jobs: JobStore, pods: PodStore, queue: KeyedQueue[Key]) -> None:
        self._informer = informer
        self._jobs = jobs
        self._pods = pods
        self._queue = queue

    async def start(self, port: int) -> None:
        """Serve on `port` of every address as long as the process lives."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/readyz", self._readiness),
                web.get("/metrics", self._metrics),
            ]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, port=port).start()

    async def _health(self, _: web.Request) -> web.Response:
        silence = time.monotonic() - self._informer.last_contact
        text = f"the pod watch was last heard of {silence:.0f} s ago\n"
        return web.Response(text=text, status=200 if silence < WATCH_SILENCE_SECONDS else 503)

    async def _readiness(self, _: web.Request) -> web.Response:
        ready = self._informer.synced.is_set()
        return web.Response(text="ready\n" if ready else "pods are being listed\n", status=200 if ready else 503)

    async def _metrics(self, _: web.Request) -> web.Response:
        metrics.QUEUE_DEPTH.set(len(self._queue))
        metrics.PODS.set(len(self._pods))
        metrics.JOBS.clear()
        for phase, count in Counter(j.status.get("phase", "Pending") for j in self._jobs.all()).items():
            metrics.JOBS.labels(phase=phase).set(count)
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
