"""Looks at one job: gathers the view, asks the planner, and carries the plan out.

The status goes first and carries the version that the plan was made from. If anybody has written the job since,
the API server refuses it and nothing else is done: a stale look never creates or deletes anything. What follows,
the Service, pods, deletions and events, can be repeated without harm, because every name is deterministic.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

import orjson

from tfdist.render import names
from tfdist_operator.kube.batches import slow_start
from tfdist_operator.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NamespaceTerminating,
    NotAllowed,
    NotFound,
    Refused,
)
from tfdist_operator.kube.job_store import JobStore, StoredJob
from tfdist_operator.kube.leftovers import KINDS, Leftovers
from tfdist_operator.kube.memory import JobMemory, Memory
from tfdist_operator.kube.objects import Objects
from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.kube.queue import KeyedQueue
from tfdist_operator.metrics import JOB_DURATION, RECONCILE_SECONDS, RESTARTS
from tfdist_operator.observed.view import JobView
from tfdist_operator.planner import Event, Plan, Settings, plan
from tfdist_operator.planner.plan import Manifest
from tfdist_operator.reports import Reports
from tfdist_operator.rhythm import Rhythm
from tfdist_operator.status.clock import parse_time
from tfdist_operator.status.phase import is_terminal

log = logging.getLogger(__name__)

_TERMINATING_SECONDS: Final = 60.0
"""When a job in a namespace that is being deleted is looked at again: by then it is gone, or stuck for long."""


_NOT_ALLOWED_SECONDS: Final = 20.0
"""How long a refusal by our account's roles is repeated before the status tells of it: an API server that has just
started gives it for a moment, until it has read them."""


def utc_now() -> datetime:
    """Return the time."""
    return datetime.now(UTC)


class Reconciler:
    """Carries out plans for the jobs of a store."""

    def __init__(
        self,
        jobs: JobStore,
        pods: PodStore,
        queue: KeyedQueue[Key],
        objects: Objects,
        settings: Settings,
        memory: Memory,
        reports: Reports,
        leftovers: Leftovers,
        rhythm: Rhythm,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._jobs = jobs
        self._pods = pods
        self._queue = queue
        self._objects = objects
        self._settings = settings
        self._memory = memory
        self._reports = reports
        self._leftovers = leftovers
        self._rhythm = rhythm
        self._now = now

    async def reconcile(self, key: Key) -> bool:
        """Look at one job once; return whether that succeeded, else it is to be repeated later."""
        job = self._jobs.get(key)
        if job is None:
            self._memory.forget(key)
            return True
        try:
            with RECONCILE_SECONDS.time():
                await self._carry_out(job, self._plan(job))
        except NotFound:
            log.info("job is gone", extra={"job": "/".join(key)})
            self._jobs.remove(key, job.uid)
            self._memory.forget(key)
        except NamespaceTerminating:
            log.info("namespace is being deleted; its job is left alone", extra={"job": "/".join(key)})
            self._queue.add_after(key, _TERMINATING_SECONDS)
        except Conflict:
            log.debug("job was written by somebody else; looking again", extra={"job": "/".join(key)})
            return False
        except ApiError as error:
            log.warning("look at job failed; repeated", extra={"job": "/".join(key), "error": str(error)})
            return False
        except Exception:
            log.exception("look at job failed by a bug of the controller", extra={"job": "/".join(key)})
            return False
        return True

    def _plan(self, job: StoredJob) -> Plan:
        settings = replace(self._settings, progress_write_seconds=self._rhythm.write_every())
        return plan(self._view(job), self._now(), settings)

    def _view(self, job: StoredJob) -> JobView:
        memory = self._memory.of(job.key, job.uid)
        written = memory.status_written_at
        return JobView(
            job=job.job,
            problems=job.problems,
            managed_by=job.managed_by,
            template=job.template,
            deleting=job.deleting,
            generation=job.generation,
            status=job.status,
            pods=self._pods.of(job.key, job.uid),
            report=memory.report,
            evaluated=memory.evaluated,
            seconds_since_status_write=None if written is None else time.monotonic() - written,
            refusal=memory.refusal,
            pace=memory.pace,
            evidence=memory.evidence,
            swept=memory.swept,
            tensorboard_of=memory.tensorboard_of,
            tensorboard_removed=memory.tensorboard_removed,
            completed=memory.completed,
            taken_over=not memory.looked,
        )

    async def _carry_out(self, job: StoredJob, todo: Plan) -> None:
        if todo.status is not None:
            self._jobs.put(await self._objects.store_status(job, todo.status))
            self._memory.of(job.key, job.uid).status_written_at = time.monotonic()
            _measure_end(job, todo.status)
        self._memory.of(job.key, job.uid).completed = todo.completed
        refused = await self._make(job, todo)
        refused = await self._show(job, todo) or refused
        for patch in todo.patches:
            with contextlib.suppress(NotFound):
                self._pods.put(await self._objects.patch_pod(job.key.namespace, patch.pod, patch.body))
        for name in todo.deletes:
            await self._delete(job, name)
        for event in todo.events:
            await self._publish(job, event)
        if todo.sweep:
            await self._sweep(job)
        if todo.delete_job:
            await self._objects.delete_job(job)
        if todo.ask:
            memory = self._memory.of(job.key, job.uid)
            memory.evidence = await self._reports.evidence(todo.ask_about, todo.ask)
            self._queue.add(job.key)
        if todo.requeue_after_seconds is not None:
            self._queue.add_after(job.key, todo.requeue_after_seconds)
        self._memory.of(job.key, job.uid).looked = True
        if refused:
            raise refused

    async def _make(self, job: StoredJob, todo: Plan) -> Refused | None:
        """Create what is missing; a refusal is remembered for the status, and the creation repeated later.

        It is returned and not raised: the pods of an earlier attempt may hold the quota that the next one needs, so
        their deletion has to follow.
        """
        memory = self._memory.of(job.key, job.uid)
        try:
            for manifest in todo.objects:
                await self._make_object(memory, manifest)
            await slow_start(todo.creates, self._create_pod)
        except NamespaceTerminating:
            raise
        except NotAllowed as error:
            if memory.not_allowed_since is None:
                memory.not_allowed_since = time.monotonic()
            if time.monotonic() - memory.not_allowed_since > _NOT_ALLOWED_SECONDS:
                self._refused(job, error)
            return error
        except (Refused, Conflict) as error:
            self._refused(job, error)
            return Refused(error.code, error.reason, error.message)
        if todo.creates:
            memory.refusal, memory.not_allowed_since = "", None
        return None

    def _refused(self, job: StoredJob, error: ApiError) -> None:
        memory = self._memory.of(job.key, job.uid)
        if memory.refusal != error.message:
            memory.refusal = error.message
            self._queue.add(job.key)  # at once, so that the status says it

    async def _make_object(self, memory: JobMemory, manifest: Manifest) -> None:
        """Make a Service or NetworkPolicy, unless this process has made it the same before."""
        kind, content = manifest["kind"], hash(orjson.dumps(manifest))
        if memory.made.get(kind) != content:
            await self._objects.make(manifest, known=kind in memory.made)
            memory.made[kind] = content

    async def _show(self, job: StoredJob, todo: Plan) -> Refused | None:
        """Make or remove the job's TensorBoard; a refusal is told in an event, and the rest goes on."""
        memory = self._memory.of(job.key, job.uid)
        try:
            for manifest in todo.tensorboard:
                await self._objects.make(manifest, known="tensorBoard" in job.status)
        except NamespaceTerminating:
            raise
        except (Refused, Conflict) as error:
            text = f"spec.tensorBoard: the API server refuses it: {error.message}"
            await self._publish(job, Event("TensorBoardRefused", text, warning=True, identity=str(job.generation)))
            return Refused(error.code, error.reason, error.message)
        if todo.tensorboard:
            memory.tensorboard_of, memory.tensorboard_removed = job.generation, False
        if todo.remove_tensorboard:
            for kind in ("Deployment", "Service", "NetworkPolicy"):
                await self._objects.remove(kind, job.key.namespace, names.tensorboard(job.key.name), job.uid)
            memory.tensorboard_removed = True
        return None

    async def _create_pod(self, manifest: Manifest) -> None:
        try:
            self._pods.put(await self._objects.create_pod(manifest))
        except AlreadyExists:
            name = manifest["metadata"]["name"]
            log.debug("pod is there already", extra={"pod": name})

    async def _delete(self, job: StoredJob, name: str) -> None:
        try:
            await self._objects.delete_pod(job.key.namespace, name)
        except NotFound:
            log.debug("pod is gone already", extra={"pod": name})

    async def _sweep(self, job: StoredJob) -> None:
        """Remove what gave the replicas of an ended job their addresses and guarded them.

        Of a job that this process has never seen with pods, another one has probably removed it: that is asked once
        for all jobs.
        """
        memory = self._memory.of(job.key, job.uid)
        for kind in KINDS:
            if memory.looked or await self._leftovers.has(kind, job.uid):
                await self._objects.remove(kind, *job.key, job.uid)
        memory.swept = True
        memory.made.clear()

    async def _publish(self, job: StoredJob, event: Event) -> None:
        """Publish an event; one that cannot be stored is only logged, for the status says the same."""
        fields = {"job": "/".join(job.key), "reason": event.reason, "note": event.message}
        log.info("event", extra=fields)
        try:
            await self._objects.publish(job, event, self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        except AlreadyExists:
            return  # and it was counted when it was told first
        except ApiError as error:
            log.warning("event was not stored", extra={**fields, "error": str(error)})
        if event.cause:
            RESTARTS.labels(reason=event.cause).inc()


def _measure_end(job: StoredJob, status: Manifest) -> None:
    """Count a job whose end has just been stored, with its age."""
    if is_terminal(status) and not is_terminal(job.status) and job.created_at:
        age = parse_time(status["completionTime"]) - parse_time(job.created_at)
        JOB_DURATION.labels(result=status["phase"]).observe(age.total_seconds())
