"""The HTTP server of probes and metrics, in the thread of the Lease: /healthz, /readyz, /metrics.

Healthy means that every watch receives data or is resumed: the liveness probe restarts a controller with a watch that
has stopped without an error. An API server that answers no request causes no restart. Ready means that the caches are
synced: a standby is ready, as the leader is.

A main event loop that is stuck is found in this thread, too (`LoopLag.wait_until_stuck`), and ends the process.
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
from tfdist_operator.http_server import HttpServer
from tfdist_operator.kube.client import Connectivity
from tfdist_operator.kube.keys import NamespacedName
from tfdist_operator.kube.workqueue import WorkQueue

WATCH_SILENCE_SECONDS: Final = 180.0
"""A watch that receives nothing, no bookmark either, is replaced after two minutes."""
STUCK_SECONDS: Final = 30
"""The main loop is stuck if this thread has run each second and the main loop has not run at all."""
CONNECTIONS: Final = 64
"""Maximum number of open connections; a kubelet and a Prometheus use one each, for milliseconds."""
_METRICS_SECONDS: Final = 1.0
"""The longest time for which the same text of the metrics is served."""
_METRICS_SHARE: Final = 0.1
"""Part of a core that making the text may use: with 5,000 jobs it takes 0.1 s, and is made once a second."""

_LAG_INTERVAL_SECONDS: Final = 0.5
_LAG_MEMORY: Final = 120
"""Number of measurements kept: one minute of them."""
_GAUGES_SECONDS: Final = 2.0
"""Time limit for the main loop to count the cached objects."""


class LoopLag:
    """Measures the lag of the main event loop: a blocked loop delays every watch and every reconcile."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque([0.0], maxlen=_LAG_MEMORY)
        self._beats, self._beat_at = 0, time.monotonic()

    @property
    def worst_seconds(self) -> float:
        """The longest lag within the last minute, including the current one."""
        current = time.monotonic() - self._beat_at - _LAG_INTERVAL_SECONDS if self._beats else 0.0
        return max(current, *tuple(self._lags))

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            due = time.monotonic() + _LAG_INTERVAL_SECONDS
            await asyncio.sleep(_LAG_INTERVAL_SECONDS)
            self.record(time.monotonic() - due)

    def record(self, seconds: float) -> None:
        """Record one measurement."""
        self._lags.append(max(0.0, seconds))
        self._beats, self._beat_at = self._beats + 1, time.monotonic()

    async def wait_until_stuck(self, seconds: int = STUCK_SECONDS) -> None:
        """Return when the main loop is stuck; run in another event loop."""
        beats, silent_seconds = self._beats, 0
        while silent_seconds < seconds:
            await asyncio.sleep(1.0)
            # Turns of this loop are counted and not time: a suspended process, or a machine without CPU time, stops
            # both (ADR 53).
            silent_seconds = silent_seconds + 1 if self._beats == beats else 0
            beats = self._beats


class Watch(Protocol):
    """The watch of one resource."""

    synced: asyncio.Event
    """Set once the cache holds all objects of one list."""

    @property
    def name(self) -> str:
        """The resource and its namespace, for messages."""

    @property
    def last_contact(self) -> float:
        """Time of the last received data, on the monotonic clock."""


class HealthServer:
    """Serves probes and metrics from the event loop in which it is started; created in the main loop.

    Args:
        watches: the watches whose silence and sync are checked.
        connectivity: of the API server.
        jobs: for metrics, as are the next two.
        pods: the cache of pods.
        queue: the queue of jobs.
        lag: the lag of the main loop.
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
        self._main_loop = asyncio.get_running_loop()
        self._server = HttpServer(self._answer, CONNECTIONS)
        self._metrics_text = b""
        self._metrics_until = float("-inf")
        self._making_metrics = asyncio.Lock()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses that it listens on."""
        return [address[:2] for address in self._server.addresses]

    async def start(self, port: int) -> None:
        """Serve on `port` of every address until stopped.

        Raises:
            OSError: the port is in use.
        """
        await self._server.start(port)

    async def stop(self) -> None:
        """Stop serving."""
        await self._server.stop()

    def problems(self) -> list[str]:
        """Return the errors of this process that a restart may remove."""
        # Silence counts only while other requests are answered: an outage of the API server restarts no replica
        # (ADR 10).
        silences = {watch.name: self._connectivity.reachable_seconds(watch.last_contact) for watch in self._watches}
        return [
            f"the watch of {watch_name} has received nothing for {seconds:.0f} s, while the API server answers"
            for watch_name, seconds in silences.items()
            if seconds > WATCH_SILENCE_SECONDS
        ]

    def unready_reasons(self) -> list[str]:
        """Return the reasons why the caches are not synced or this replica cannot lead."""
        listing = [f"{watch.name} are being listed" for watch in self._watches if not watch.synced.is_set()]
        return [*listing, *filter(None, [self._leading_error()])]

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        match request.method, request.path:
            case "GET", "/healthz":
                return _probe(self.problems(), "healthy")
            case "GET", "/readyz":
                return _probe(self.unready_reasons() + self.problems(), f"ready; {self._role()}")
            case "GET", "/metrics":
                return web.Response(body=await self._metrics(), headers={"Content-Type": CONTENT_TYPE_LATEST})
        return web.Response(status=404, text="GET /healthz, /readyz or /metrics\n")

    async def _metrics(self) -> bytes:
        """Return the metrics as text: the last one, if it was made a moment ago."""
        # A flood of requests costs one text a second (ADR 53).
        async with self._making_metrics:
            if time.monotonic() >= self._metrics_until:
                metrics.LOOP_LAG_SECONDS.set(self._lag.worst_seconds)
                await self._count_in_main_loop()
                self._metrics_text, seconds = await asyncio.to_thread(_metrics_text)
                self._metrics_until = time.monotonic() + min(_METRICS_SECONDS, seconds / _METRICS_SHARE)
            return self._metrics_text

    async def _count_in_main_loop(self) -> None:
        """Count the cached objects in the main loop; if it is busy, the last counts stay."""
        # The caches are not safe for threads, and this runs in the thread of the Lease.
        counted = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._count(), self._main_loop))
        try:
            async with asyncio.timeout(_GAUGES_SECONDS):
                await counted
        except TimeoutError:
            counted.cancel()

    async def _count(self) -> None:
        metrics.QUEUE_DEPTH.set(len(self._queue))
        metrics.CACHED.labels(resource="pods").set(len(self._pods))
        metrics.CACHED.labels(resource="tfdistjobs").set(len(self._jobs))
        metrics.JOBS.clear()
        for phase, count in Counter(j.phase or JobPhase.PENDING for j in self._jobs.all()).items():
            metrics.JOBS.labels(phase=phase).set(count)
        now = datetime.now(UTC)
        starting = (job for job in self._jobs.all() if job.phase is JobPhase.STARTING)
        longest = max((starting_seconds(job.status, now) for job in starting), default=0.0)
        metrics.LONGEST_START_SECONDS.set(longest)


def _metrics_text() -> tuple[bytes, float]:
    """Return the metrics as text, and the CPU time that making it took in seconds."""
    began = time.thread_time()
    return generate_latest(), time.thread_time() - began


def _probe(problems: Sequence[str], text: str) -> web.Response:
    return web.Response(text="\n".join(problems or [text]) + "\n", status=503 if problems else 200)
