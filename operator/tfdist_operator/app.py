"""The composition root: makes the parts, runs them together, and stops them in order.

If any part ends, the process ends: Kubernetes starts it anew, and everything is derived from the API server.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Coroutine
from typing import Any, Final, cast

import kopf
import uvloop

from tfdist_operator import config, handlers
from tfdist_operator.health import Probes
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.connection import authorization, find_connection, ssl_context
from tfdist_operator.kube.informer import PodInformer
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.memory import Memory
from tfdist_operator.kube.objects import Objects
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.kube.queue import KeyedQueue
from tfdist_operator.logs import configure
from tfdist_operator.planner import Settings
from tfdist_operator.progress import ProgressPoller
from tfdist_operator.reconcile import Reconciler, utc_now
from tfdist_operator.reports import Reports

log = logging.getLogger(__name__)


async def run(settings: config.Config) -> None:
    """Run the controller until it is told to stop or a part of it ends."""
    info = find_connection()
    stop = asyncio.Event()
    _stop_on_signals(stop)
    async with Client(info.server, ssl_context(info), authorization(info)) as client:
        queue: KeyedQueue[Key] = KeyedQueue()
        jobs, pods = JobStore(), PodStore(queue.add)
        informer = PodInformer(client, pods, settings.namespace)
        await Probes(informer, jobs, pods, queue).start(settings.port)
        parts = _parts(settings, client, queue, jobs, pods, informer)
        parts["stop"] = stop.wait()
        parts["kopf"] = _kopf(settings, jobs, queue, informer, info, stop)
        await _until_first_ends(parts)


def _parts(
    settings: config.Config,
    client: Client,
    queue: KeyedQueue[Key],
    jobs: JobStore,
    pods: PodStore,
    informer: PodInformer,
) -> dict[str, Coroutine[object, object, object]]:
    """Return the controller's own loops by name; workers begin when the pods are known."""
    memory = Memory()
    objects = Objects(client, _instance())
    planning = Settings(settings.trainer_image, settings.progress_write_seconds)
    reports = Reports()
    reconciler = Reconciler(jobs, pods, queue, objects, planning, memory, reports)
    poller = ProgressPoller(jobs, pods, memory, reports, queue.add, utc_now)

    async def worker() -> None:
        await informer.synced.wait()
        await queue.work(reconciler.reconcile)

    workers = {f"worker {i}": worker() for i in range(settings.workers)}
    return {"pods": informer.run(), "progress": poller.run(settings.progress_poll_seconds), **workers}


def _instance() -> str:
    """Return the name of this process among the controllers of a cluster: in a pod the pod's name."""
    return os.environ.get("HOSTNAME") or socket.gethostname()


async def _kopf(
    settings: config.Config,
    jobs: JobStore,
    queue: KeyedQueue[Key],
    informer: PodInformer,
    info: kopf.ConnectionInfo,
    stop: asyncio.Event,
) -> None:
    """Run kopf once the pods are known: a job is never looked at with an empty cache."""
    await informer.synced.wait()
    log.info("pods are known; watching jobs")
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=handlers.registry(jobs, queue.add, info),
        settings=handlers.settings(),
        standalone=True,
        # kopf would look up the user's name, which a numeric user of an image does not have
        identity=cast("Any", _instance()),  # a NewType of str that kopf does not export
        clusterwide=not settings.namespace,
        namespaces=[settings.namespace] if settings.namespace else [],
    )
    _stop_on_signals(stop)  # kopf has taken the signals; when it stops first, it waits for tasks that are not its own
    await kopf.run_tasks(tasks, ignored=others)


def _stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


_STOP_SECONDS: Final = 5.0
"""How long the parts get to stop. Whoever takes longer is left: nothing here is lost with the process."""


async def _until_first_ends(parts: dict[str, Coroutine[object, object, object]]) -> None:
    """Run the parts until one ends, give the others time to stop, and end the process."""
    tasks = {asyncio.create_task(part, name=name) for name, part in parts.items()}
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    _, stuck = await asyncio.wait(rest, timeout=_STOP_SECONDS)
    stopped = next((task for task in done if task.get_name() == "stop"), None)
    first = stopped or next(iter(done))
    failure = None if first.cancelled() else first.exception()
    log.info("controller stops", extra={"part": first.get_name()}, exc_info=failure)
    if stuck:
        log.warning("parts do not stop; they are left", extra={"parts": sorted(t.get_name() for t in stuck)})
    logging.shutdown()
    os._exit(0 if stopped else 1)


def main() -> None:
    """Entry point of the controller's image."""
    settings = config.from_environment()
    configure(settings.log_level)
    log.info("controller starts", extra={"python": sys.version.split()[0]})
    uvloop.run(run(settings))


if __name__ == "__main__":
    main()
