"""The HTTP server of probes and metrics: /healthz, /readyz, /metrics.

Healthy means that the event loop runs and that every watch receives data or is resumed: the liveness probe restarts a
controller with a watch that has stopped without an error. An API server that answers no request causes no restart.
Ready means that the caches are synced: a standby is ready, as the leader is.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from tfdist.api.status import JobPhase
from tfdist.status.phase import starting_seconds
from tfdist_operator import metrics
from tfdist_operator.cache.job_cache import JobCache
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.kube.connectivity import Connectivity
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue

WATCH_SILENCE_SECONDS: Final = 180.0
"""A watch that receives nothing, no bookmark either, is replaced after two minutes."""
LOOP_BLOCKED_SECONDS: Final = 30.0

_LAG_INTERVAL_SECONDS: Final = 0.5
_LAG_MEMORY: Final = 120
"""Number of measurements kept: those of one minute."""


class LoopLag:
    """Measures the lag of the event loop: a blocked loop delays every probe, watch and renewal of the Lease."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque([0.0], maxlen=_LAG_MEMORY)

    @property
    def worst_seconds(self) -> float:
        """The longest lag within the last minute."""
        return max(self._lags)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.monotonic() + _LAG_INTERVAL_SECONDS
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            self.note(time.monotonic() - due)

    def note(self, seconds: float) -> None:
        """Record one measurement."""
        self._lags.append(max(0.0, seconds))


class Watch(Protocol):
    """The watch of one resource."""

    synced: asyncio.Event
    """Set once the cache holds all objects of one list."""

    @property
    def what(self) -> str:
        """The resource and its namespace, for messages."""

    @property
    def last_contact(self) -> float:
        """Time of the last received data, on the monotonic clock."""


class HealthServer:
    """Serves probes and metrics.

    Args:
        watches: the watches whose silence and sync are checked.
        connectivity: of the API server.
        jobs: for metrics, as are the next two.
        pods: the cache of pods.
        queue: the queue of jobs.
        lag: the lag of the event loop.
        role: returns the leader, for the message of /readyz.
        leading_error: returns the reason why this replica cannot lead; "" for none.
    """

    def __init__(
        self,
        watches: Sequence[Watch],
        connectivity: Connectivity,
        jobs: JobCache,
        pods: PodCache,
        queue: WorkQueue[NamespacedName],
        lag: LoopLag,
        role: Callable[[], str],
        leading_error: Callable[[], str] = str,
    ) -> None:
        self._watches = watches
        self._connectivity = connectivity
        self._jobs = jobs
        self._pods = pods
        self._queue = queue
        self._lag = lag
        self._role = role
        self._leading_error = leading_error
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
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    def problems(self) -> list[str]:
        """Return the errors of this process that a restart may remove."""
        silences = {watch.what: self._connectivity.reachable_seconds(watch.last_contact) for watch in self._watches}
        problems = [
            f"the watch of {watch_name} has received nothing for {seconds:.0f} s, while the API server answers"
            for watch_name, seconds in silences.items()
            if seconds > WATCH_SILENCE_SECONDS
        ]
        if self._lag.worst_seconds > LOOP_BLOCKED_SECONDS:
            problems.append(f"the event loop was blocked for {self._lag.worst_seconds:.0f} s")
        return problems

    def unready_reasons(self) -> list[str]:
        """Return the reasons why the caches are not synced or this replica cannot lead."""
        listing = [f"{watch.what} are being listed" for watch in self._watches if not watch.synced.is_set()]
        return [*listing, *filter(None, [self._leading_error()])]

    async def _health(self, _: web.Request) -> web.Response:
        problems = self.problems()
        return web.Response(text="\n".join(problems or ["healthy"]) + "\n", status=503 if problems else 200)

    async def _readiness(self, _: web.Request) -> web.Response:
        problems = self.unready_reasons() + self.problems()
        text = "\n".join(problems or [f"ready; {self._role()}"])
        return web.Response(text=text + "\n", status=503 if problems else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        metrics.QUEUE_DEPTH.set(len(self._queue))
        metrics.CACHED.labels(resource="pods").set(len(self._pods))
        metrics.CACHED.labels(resource="tfdistjobs").set(len(self._jobs))
        metrics.LOOP_LAG_SECONDS.set(self._lag.worst_seconds)
        metrics.JOBS.clear()
        for phase, count in Counter(j.phase or JobPhase.PENDING for j in self._jobs.all()).items():
            metrics.JOBS.labels(phase=phase).set(count)
        now = datetime.now(UTC)
        starting = (job for job in self._jobs.all() if job.phase is JobPhase.STARTING)
        longest = max((starting_seconds(job.status, now) for job in starting), default=0.0)
        metrics.LONGEST_START_SECONDS.set(longest)
        return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_LATEST})
