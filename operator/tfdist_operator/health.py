"""What a probe and Prometheus ask: /healthz, /readyz, /metrics.

Healthy means that every watch has been heard of lately and that the event loop runs: a controller whose watch has died
in silence is restarted by its probe instead of looking well for days. Ready means that the caches are in sync: a
standby is as ready as the leader.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tfdist_operator import metrics
from tfdist_operator.kube.informer import Informer
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.kube.queue import KeyedQueue

WATCH_SILENCE_SECONDS: Final = 300.0
LOOP_BLOCKED_SECONDS: Final = 30.0

_LAG_INTERVAL_SECONDS: Final = 0.5
_LAG_MEMORY: Final = 120
"""Measurements that are remembered: those of a minute."""


class LoopLag:
    """Measures how late the event loop is: what blocks it delays every probe, watch and renewal of the Lease."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque([0.0], maxlen=_LAG_MEMORY)

    @property
    def worst_seconds(self) -> float:
        """The longest delay within the last minute."""
        return max(self._lags)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.monotonic() + _LAG_INTERVAL_SECONDS
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            self.note(time.monotonic() - due)

    def note(self, seconds: float) -> None:
        """Remember one measurement."""
        self._lags.append(max(0.0, seconds))


class Probes:
    """Answers on the controller's port from what its parts say of themselves; `role` says who leads, in words."""

    def __init__(
        self,
        informers: Sequence[Informer],
        jobs: JobStore,
        pods: PodStore,
        queue: KeyedQueue[Key],
        lag: LoopLag,
        role: Callable[[], str],
    ) -> None:
        self._informers = informers
        self._jobs = jobs
        self._pods = pods
        self._queue = queue
        self._lag = lag
        self._role = role
        self._runner: web.AppRunner | None = None

    async def start(self, port: int) -> None:
        """Serve on `port` of every address until stopped."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/readyz", self._readiness),
                web.get("/metrics", self._metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, port=port).start()

    async def stop(self) -> None:
        """Serve no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    def problems(self) -> list[str]:
        """Return what is wrong with this process such that a new one may do better."""
        now = time.monotonic()
        found = [
            f"the watch of {informer.what} was last heard of {now - informer.last_contact:.0f} s ago"
            for informer in self._informers
            if now - informer.last_contact > WATCH_SILENCE_SECONDS
        ]
        if self._lag.worst_seconds > LOOP_BLOCKED_SECONDS:
            found.append(f"the event loop was blocked for {self._lag.worst_seconds:.0f} s")
        return found

    def not_in_sync(self) -> list[str]:
        """Return what keeps this replica from being in sync."""
        return [f"{informer.what} are being listed" for informer in self._informers if not informer.synced.is_set()]

    async def _health(self, _: web.Request) -> web.Response:
        problems = self.problems()
        return web.Response(text="\n".join(problems or ["healthy"]) + "\n", status=503 if problems else 200)

    async def _readiness(self, _: web.Request) -> web.Response:
        problems = self.not_in_sync() + self.problems()
        text = "\n".join(problems or [f"ready; {self._role()}"])
        return web.Response(text=text + "\n", status=503 if problems else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        metrics.QUEUE_DEPTH.set(len(self._queue))
        metrics.CACHED.labels(resource="pods").set(len(self._pods))
        metrics.CACHED.labels(resource="tfdistjobs").set(len(self._jobs))
        metrics.LOOP_LAG_SECONDS.set(self._lag.worst_seconds)
        metrics.JOBS.clear()
        for phase, count in Counter(j.status.get("phase", "Pending") for j in self._jobs.all()).items():
            metrics.JOBS.labels(phase=phase).set(count)
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
