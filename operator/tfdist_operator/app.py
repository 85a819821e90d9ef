"""The composition root: builds the controller, runs it under kopf, and stops it in order.

kopf calls the controller through `handlers`: it watches the jobs, whose events update the job cache (`caches`). Every
replica keeps its caches in sync; only the leader reconciles (`leader`). If a task ends, the process exits: Kubernetes
restarts it, and all state is derived from the API server. On loss of the Lease the process exits immediately, without
graceful shutdown, so that it cannot write any more.

The Lease is renewed, and probes are answered, in a thread with an event loop of its own: no work of the main loop
delays them (ADR 53). If the main loop is stuck, that thread releases the Lease and ends the process.
"""

import asyncio
import logging
import os
import socket
import sys
import threading
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn, cast

import kopf
import uvloop

from tfdist.api.resource import PLURAL
from tfdist_operator import config, handlers
from tfdist_operator.budget import BUDGET, in_thread
from tfdist_operator.cache.manifests import restore_manifest
from tfdist_operator.caches import Caches
from tfdist_operator.health import STUCK_SECONDS, HealthServer, LoopLag
from tfdist_operator.kopf_adapter.kopf_session import KopfSession
from tfdist_operator.kube.client import ApiClient, Connectivity
from tfdist_operator.kube.connection import authorization, cluster_id, find_connection, ssl_context
from tfdist_operator.kube.keys import ALL_NAMESPACES
from tfdist_operator.kube.preflight import CrdCheck, CrdMissing, await_crd, streams_lists
from tfdist_operator.leader import start_leader_tasks
from tfdist_operator.leader_election.election import LeaderElector, LeadershipLost
from tfdist_operator.leader_election.lease_lock import LeaseLock
from tfdist_operator.logs import configure
from tfdist_operator.loop_thread import LoopThread
from tfdist_operator.metrics import LEADER, initialize_series
from tfdist_operator.replica_reports.diagnosis import Diagnosis
from tfdist_operator.supervisor import TaskSupervisor
from tfdist_operator.webhook.admission import Review, review
from tfdist_operator.webhook.certificate_secret import WebhookCertificate, webhook_certificate
from tfdist_operator.webhook.server import WebhookServer

log = logging.getLogger(__name__)

_LEASE_TIMEOUT_SECONDS: Final = 4.0
"""Timeout of a renewal: two can time out before the renew deadline."""
_SWITCH_SECONDS: Final = 0.001
"""How long a thread may keep the interpreter from another one: the main loop waits so long after each of its pauses
while a thread plans an expensive job."""
_LOG_SECONDS: Final = 2.0
"""Time limit of the last line of the log."""
_STOP_SECONDS: Final = 1.0
"""Time limit for the loops to stop before the Lease is released."""


class Controller:
    """One replica. kopf calls `start` and `stop`; `stop_flag` makes kopf stop, and `failed` sets the exit status."""

    def __init__(self, settings: config.Config) -> None:
        info = find_connection()
        tls, authorized = ssl_context(info), authorization(info)
        settings = replace(settings, installation=replace(settings.installation, cluster=cluster_id(info)))
        self._server, self._settings = info.server, settings
        self._instance = os.environ.get("HOSTNAME") or socket.gethostname()
        connectivity = Connectivity()
        connect = partial(ApiClient, info.server, tls, authorized, connectivity=connectivity)
        self._lease_thread = LoopThread("lease and probes")
        # A separate client: neither a full pool nor a Retry-After of the server may delay a renewal.
        self._lease_client = connect(connections=2, timeout_seconds=_LEASE_TIMEOUT_SECONDS)
        lease = LeaseLock(self._lease_client, settings.lease_namespace, settings.lease_name, info.token)
        self._elector = LeaderElector(lease, f"{self._instance}_{uuid.uuid4()}")
        self._client = connect(may_write=self._elector.is_leader if settings.leader_election else lambda: True)
        namespaces = settings.namespaces or (ALL_NAMESPACES,)
        self._kopf_session = KopfSession(tls, authorized, namespaces, settings.max_spec_bytes)
        self._caches = caches = Caches(self._client, self._kopf_session, settings)
        self._lag = LoopLag()
        self._crd = CrdCheck(self._client)
        stores = caches.jobs, caches.pods, caches.queue
        role, leading_error = self._role, lambda: self._crd.problem
        self._probes = HealthServer(caches.watches, connectivity, *stores, self._lag, role, leading_error)
        self._diagnosis: Diagnosis | None = None
        self._supervisor = TaskSupervisor(self._on_task_end)
        self.kopf_settings = handlers.settings()
        # Without the fence of the leader, since every replica serves the webhook and renews its certificate (ADR 20).
        self._webhook_client = connect(connections=2)
        self._certificate: WebhookCertificate | None = None
        if settings.webhook:
            self._certificate = webhook_certificate(
                self._webhook_client, settings.webhook, settings.installation.namespace
            )
            context, ready = self._certificate.context, self._certificate.ready
            server = WebhookServer(settings.webhook_port, context, ready, settings.max_spec_bytes)
            self.kopf_settings.admission.server = server
        self._reviews = ThreadPoolExecutor(1, "reviews")
        self.stop_flag = asyncio.Event()
        self.failed = False

    def session(self) -> kopf.AiohttpSession:
        """Return a new session with the API server, for kopf."""
        return kopf.AiohttpSession(server=self._server, aiohttp_session=self._kopf_session.new_session())

    def on_job_event(self, kind: str | None, raw: Any) -> None:
        """Update the job cache from an event."""
        jobs = self._caches.jobs
        (jobs.on_delete if kind == "DELETED" else jobs.on_update)(restore_manifest(raw))

    async def review(self, manifest: Mapping[str, Any], old: Mapping[str, Any] | None) -> Review:
        """Return the admission response for an object that is created, or changed from `old`, made in a thread.

        Raises:
            BudgetExceeded: that takes too long.
        """
        settings = self._settings
        options: dict[str, Any] = {"programs": settings.check_programs, "max_bytes": settings.max_spec_bytes}
        make = partial(review, manifest, old, settings.installation.pod_defaults, **options)
        meta = manifest.get("metadata") or {}
        what = f"review of {meta.get('namespace')}/{meta.get('name') or meta.get('generateName')}"
        answer, _ = await in_thread(self._reviews, what, make)
        return answer

    async def start(self) -> None:
        """Open the connections and start every task of a standby; kopf watches once this returns."""
        initialize_series()
        await self._client.__aenter__()
        await self._lease_thread.run(self._lease_client.__aenter__())
        await self._webhook_client.__aenter__()
        try:
            await self._lease_thread.run(self._probes.start(self._settings.port))
        except OSError as error:
            # No task has started that must be stopped, and kopf would end by SIGKILL after STOP_SECONDS.
            _end_at_once("the controller cannot start", f"TFDIST_PORT={self._settings.port}: {error}")
        self._supervisor.start("event loop lag", self._lag.run())
        self._supervisor.start("watchdog of the event loop", self._lease_thread.run(self._end_when_stuck()))
        # Before the watches: kopf waits without a message for a resource that does not exist (ADR 10).
        await self._await_api()
        if self._certificate is not None:
            self._supervisor.start("certificate of the webhook", self._certificate.run())
        for informer in self._caches.informers:
            self._supervisor.start(f"watch {informer.name}", informer.run())
        self._supervisor.start(f"watch {PLURAL}", self._caches.job_watch.run())
        for optional in self._caches.optional:
            self._supervisor.start(optional.name, optional.run())
        self._supervisor.start("leadership", self._lead())

    async def _await_api(self) -> None:
        try:
            await await_crd(self._client)
            self.kopf_settings.watching.initial_streaming = await streams_lists(
                self._client, self._caches.namespaces[0]
            )
        except CrdMissing as error:
            _end_at_once("the controller cannot start", str(error))
        except asyncio.CancelledError:  # stopped before any task has started
            os._exit(0)

    async def stop(self) -> None:
        """Stop reconciling, then release the Lease, then close the connections."""
        # This order: the next leader may write once the Lease is released, so that nothing of this one may run then.
        await self._supervisor.stop(_STOP_SECONDS)
        await self._lease_thread.run(self._elector.release())
        await self._lease_thread.run(self._probes.stop())
        if self._diagnosis is not None:
            await self._diagnosis.close()
        await self._client.__aexit__()
        await self._lease_thread.run(self._lease_client.__aexit__())
        await self._webhook_client.__aexit__()
        self.stop_flag.set()  # otherwise kopf waits 5 s for its own task that waits for this flag
        log.info("controller has stopped")

    async def _lead(self) -> None:
        """Wait until the caches are synced and this replica leads; reconcile while it leads."""
        for watch in self._caches.watches:
            await watch.synced.wait()
        for optional in self._caches.optional:
            await optional.answered.wait()
        log.info("in sync", extra={"jobs": len(self._caches.jobs), "pods": len(self._caches.pods)})
        # Before the election: a replica that cannot store its status must not hold the Lease (ADR 19).
        await self._crd.wait()
        if not self._settings.leader_election:
            await self._caches.resync.run(self._begin)
        await self._lease_thread.run(self._elector.acquire())
        # A task of its own: the Lease must be renewed while the caches are compared.
        self._supervisor.start("resync", self._caches.resync.run(self._begin))
        await self._lease_thread.run(self._renew())

    async def _renew(self) -> NoReturn:
        """Renew the Lease until it is lost, and end the process then; run in the thread of the Lease."""
        try:
            await self._elector.renew_until_lost()
        except LeadershipLost as lost:
            _end_at_once("leadership is lost; the process exits and restarts as a standby", str(lost))

    async def _end_when_stuck(self) -> NoReturn:
        """End the process when the main loop is stuck, so that a standby leads; run in the thread of the Lease."""
        # The process would hold the Lease without working: its renewals do not need the main loop (ADR 53).
        await self._lag.wait_until_stuck()
        await self._elector.release()
        text = f"the main event loop has not run for {STUCK_SECONDS} s; the Lease is released, and the process exits"
        _end_at_once(text, f"it was {BUDGET.current or 'not working for an object'}")

    def _begin(self) -> None:
        """Start to reconcile: enqueue every job, and each job that changes from now on."""
        log.info("this replica leads", extra={"instance": self._instance})
        LEADER.set(1)
        self._caches.lead(self._start_leader_tasks)

    def _start_leader_tasks(self) -> None:
        self._diagnosis = start_leader_tasks(
            self._supervisor, self._caches, self._client, self._settings, self._instance
        )

    def _role(self) -> str:
        """Return the role of this replica, for messages."""
        if self._caches.leads:
            return "leading"
        if pending := self._caches.resync.waiting_for:
            return f"takes over; {pending} are compared with the API server"
        return f"standby; the leader is {self._elector.leader or 'not known yet'}"

    def _on_task_end(self) -> None:
        """Stop in order, and exit with an error; a stop that exceeds its time limit is aborted."""
        self.failed = True
        self.stop_flag.set()
        # A task that ignores its cancellation must not keep a process alive that has failed.
        asyncio.get_running_loop().call_later(handlers.STOP_SECONDS, os._exit, 1)


def _end_at_once(message: str, reason: str) -> NoReturn:
    # A main loop that is stuck may hold a lock of the log.
    threading.Timer(_LOG_SECONDS, os._exit, [1]).start()
    log.error(message, extra={"why": reason})
    logging.shutdown()
    os._exit(1)


async def run(settings: config.Config) -> NoReturn:
    """Run the controller until it is stopped, or a task of it or of kopf ends; exit with 0 or 1."""
    controller = Controller(settings)
    try:
        await kopf.operator(
            registry=handlers.registry(controller, webhook=bool(settings.webhook)),
            settings=controller.kopf_settings,
            standalone=True,
            # kopf would look up the user's name, which a numeric user of an image does not have
            identity=cast("Any", "controller"),  # a NewType of str that kopf does not export
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=controller.stop_flag,
        )
    except Exception:
        log.exception("kopf has ended")
        controller.failed = True
    logging.shutdown()
    # Everything is closed: finalizing the interpreter only delays the exit.
    os._exit(1 if controller.failed else 0)


def main() -> None:
    """Entry point of the controller's image."""
    settings = config.from_environment()
    configure(settings.log_level)
    sys.setswitchinterval(_SWITCH_SECONDS)
    threading.Thread(target=BUDGET.watch, name="budget", daemon=True).start()
    log.info("controller starts", extra={"python": sys.version.split()[0]})
    uvloop.run(run(settings))


if __name__ == "__main__":
    main()
