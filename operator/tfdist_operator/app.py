"""The composition root: makes the parts, runs them under kopf, and stops them in order.

Every replica keeps its caches in sync; the one that leads also acts. If any part ends, the process ends: Kubernetes
starts it anew, and everything is derived from the API server. A leader that may not lead any more ends at once,
without a farewell: what is not running cannot write.
"""

import asyncio
import logging
import os
import socket
import sys
import uuid
from typing import Any, Final, NoReturn, cast

import kopf
import uvloop

from tfdist.api.v1 import GROUP, PLURAL, VERSION
from tfdist.render import names
from tfdist_operator import config, handlers
from tfdist_operator.health import LoopLag, Probes
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.connection import authorization, find_connection, ssl_context
from tfdist_operator.kube.elector import Elector, LeaseLost
from tfdist_operator.kube.informer import Informer, Sink, Watched
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.lease import Lease
from tfdist_operator.kube.leftovers import Leftovers
from tfdist_operator.kube.memory import Memory
from tfdist_operator.kube.objects import Objects
from tfdist_operator.kube.pod_store import Key
from tfdist_operator.kube.queue import KeyedQueue
from tfdist_operator.kube.reached import EVERYWHERE
from tfdist_operator.kube.sinks import WatchedJobs, WatchedPods
from tfdist_operator.logs import configure
from tfdist_operator.metrics import LEADER, begin_at_zero
from tfdist_operator.parts import Parts
from tfdist_operator.planner import Settings
from tfdist_operator.progress import ProgressPoller
from tfdist_operator.reconcile import Reconciler, utc_now
from tfdist_operator.reports import Reports
from tfdist_operator.rhythm import Rhythm

log = logging.getLogger(__name__)

_LEASE_TIMEOUT_SECONDS: Final = 4.0
"""For a renewal: two can fail before the deadline without an answer."""
_STOP_SECONDS: Final = 1.0
"""How long the loops get to stop before the Lease is given up."""


class Controller:
    """One replica. `start` and `stop` are called by kopf; `stop_flag` tells kopf to stop, `failed` with what result."""

    def __init__(self, settings: config.Config) -> None:
        info = find_connection()
        connection = info.server, ssl_context(info), authorization(info)
        self._settings = settings
        self._instance = os.environ.get("HOSTNAME") or socket.gethostname()
        # A client of its own: neither a full pool nor a server that asks for patience may delay a renewal.
        self._lease_client = Client(*connection, connections=2, timeout_seconds=_LEASE_TIMEOUT_SECONDS)
        lease = Lease(self._lease_client, settings.lease_namespace, settings.lease_name)
        self._elector = Elector(lease, f"{self._instance}_{uuid.uuid4()}")
        may_write = self._elector.may_act if settings.leader_election else _alone
        self._client = Client(*connection, may_write=may_write)
        self._queue: KeyedQueue[Key] = KeyedQueue()
        self._leads = False
        self._jobs = JobStore(settings.pod_defaults)
        self._pods = WatchedPods(self._changed)
        self._informers = self._make_informers()
        self._lag = LoopLag()
        self._probes = Probes(self._informers, self._jobs, self._pods, self._queue, self._lag, self._role)
        self._reports: Reports | None = None
        self._parts = Parts(self._part_ended)
        self.stop_flag = asyncio.Event()
        self.failed = False

    def _make_informers(self) -> tuple[Informer, ...]:
        """Return those of jobs and pods for every namespace, or one of each for all namespaces."""
        kinds: tuple[tuple[str, str, str, Sink], ...] = (
            (f"apis/{GROUP}/{VERSION}", PLURAL, "", WatchedJobs(self._jobs, self._changed)),
            ("api/v1", "pods", names.POD_SELECTOR, self._pods),
        )
        return tuple(
            Informer(self._client, Watched.of(group, plural, namespace, selector), sink)
            for namespace in self._settings.namespaces or (EVERYWHERE,)
            for group, plural, selector, sink in kinds
        )

    async def start(self) -> None:
        """Open the connections and start every loop of a standby."""
        begin_at_zero()
        await self._client.__aenter__()
        await self._lease_client.__aenter__()
        try:
            await self._probes.start(self._settings.port)
        except OSError as error:
            # Nothing has begun that could be stopped, and kopf would end by SIGKILL after STOP_SECONDS.
            _end_at_once("the controller cannot start", f"TFDIST_PORT={self._settings.port}: {error}")
        self._parts.start("event loop lag", self._lag.run())
        for informer in self._informers:
            self._parts.start(f"watch {informer.what}", informer.run())
        self._parts.start("leadership", self._lead())

    async def stop(self) -> None:
        """Stop acting, then give the Lease up, then close what is open."""
        await self._parts.stop(_STOP_SECONDS)
        await self._elector.release()
        await self._probes.stop()
        if self._reports is not None:
            await self._reports.close()
        await self._client.__aexit__()
        await self._lease_client.__aexit__()
        self.stop_flag.set()  # or kopf waits 5 s for the task of its own that waits for this flag
        log.info("controller has stopped")

    async def _lead(self) -> None:
        """Wait until this replica is in sync and leads, then act for as long as it does."""
        for informer in self._informers:
            await informer.synced.wait()
        log.info("in sync", extra={"jobs": len(self._jobs), "pods": len(self._pods)})
        if not self._settings.leader_election:
            self._begin()
            await asyncio.Event().wait()
        await self._elector.acquire()
        self._begin()
        try:
            await self._elector.hold()
        except LeaseLost as lost:
            _end_at_once("leadership is lost; the process ends and starts again as a standby", str(lost))

    def _begin(self) -> None:
        """Act: look at every job there is, and at each that changes from now on."""
        log.info("this replica leads", extra={"instance": self._instance})
        LEADER.set(1)
        self._leads = True
        self._start_acting()
        for job in self._jobs.all():
            self._queue.add(job.key)

    def _start_acting(self) -> None:
        """Start the loops that only the leader runs."""
        settings, memory = self._settings, Memory()
        reports = self._reports = Reports()
        objects = Objects(self._client, self._instance)
        planning = Settings(
            settings.trainer_image,
            namespace=config.own_namespace(),
            pod_defaults=settings.pod_defaults,
        )
        leftovers = Leftovers(objects, settings.namespaces or (EVERYWHERE,))
        rhythm = Rhythm(settings.progress_poll_seconds, settings.progress_write_seconds)
        reconciler = Reconciler(
            self._jobs, self._pods, self._queue, objects, planning, memory, reports, leftovers, rhythm
        )
        poller = ProgressPoller(self._jobs, self._pods, memory, reports, self._queue.add_after, utc_now, rhythm)
        self._parts.start("progress", poller.run())
        for number in range(settings.workers):
            self._parts.start(f"worker {number}", self._queue.work(reconciler.reconcile))

    def _changed(self, key: Key) -> None:
        """Mark a job dirty; a standby need not remember, since the leader begins with all of them."""
        if self._leads:
            self._queue.add(key)

    def _role(self) -> str:
        """Return who leads, in words."""
        if self._leads:
            return "leading"
        return f"standby; the leader is {self._elector.leader or 'not known yet'}"

    def _part_ended(self) -> None:
        """End the process, in order if that is possible."""
        self.failed = True
        self.stop_flag.set()
        asyncio.get_running_loop().call_later(handlers.STOP_SECONDS, os._exit, 1)


def _alone() -> bool:
    return True


def _end_at_once(what: str, why: str) -> NoReturn:
    log.error(what, extra={"why": why})
    logging.shutdown()
    os._exit(1)


async def run(settings: config.Config) -> NoReturn:
    """Run the controller until it is told to stop or a part of it ends; end the process with 0 or 1."""
    controller = Controller(settings)
    await kopf.operator(
        registry=handlers.registry(find_connection, controller.start, controller.stop),
        settings=handlers.settings(),
        standalone=True,
        # kopf would look up the user's name, which a numeric user of an image does not have
        identity=cast("Any", "controller"),  # a NewType of str that kopf does not export
        clusterwide=True,
        stop_flag=controller.stop_flag,
    )
    logging.shutdown()
    os._exit(1 if controller.failed else 0)  # all is closed: tidying the interpreter up would only delay the end


def main() -> None:
    """Entry point of the controller's image."""
    settings = config.from_environment()
    configure(settings.log_level)
    log.info("controller starts", extra={"python": sys.version.split()[0]})
    uvloop.run(run(settings))


if __name__ == "__main__":
    main()
