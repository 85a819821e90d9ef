"""The logs of all replicas of a job: as they are now, or followed through restarts to the end of the job."""

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from tfdist.client.api_server import ApiServer
from tfdist.client.errors import ClientError, NoCluster, NotFound, Unavailable
from tfdist.client.event_queue import EventQueue, Source
from tfdist.client.job import Job
from tfdist.client.log_stream import LogLine
from tfdist.client.logs import ContainerLog, LogOptions, LogSource, log_source
from tfdist.client.paths import pods_path
from tfdist.client.replica_pods import pods_of
from tfdist.client.watch import patiently, watch_list
from tfdist.render.names import JOB_UID_LABEL

JobWatch = Callable[[str], Iterator[Job]]
"""Yields the job of a name, and again after each change."""
LogEvent = Job | list[LogLine] | LogSource
"""What following a job yields: the job after a change, lines of one replica, or the source of a log that has ended."""

_PER_LINE: Final = 300
"""Memory of a line in addition to its text."""
_STEP_SECONDS: Final = 0.5
_QUIET_STEPS: Final = 60
"""How often nothing may arrive for a step when the job has ended: the node of a pod may be lost.

Steps, for time also passes while the process is stopped (Ctrl-Z), or waits for whoever reads its output.
"""


@dataclass(frozen=True, slots=True)
class _StreamEnd:
    source: LogSource


@dataclass(frozen=True, slots=True)
class _Failure:
    error: ClientError


_Item = Job | LogLine | LogSource | _StreamEnd | _Failure


def sources(api: ApiServer, job: Job, options: LogOptions) -> list[LogSource]:
    """Return the logs of a job that exist, by default of the latest attempt of each replica.

    Raises:
        ClientError: the request failed.
    """
    pods = pods_of(api, job.namespace, job.name)
    own = (pod for pod in pods if pod["metadata"]["labels"].get(JOB_UID_LABEL) == job.uid)
    candidates = [source for pod in own if (source := log_source(pod)) and options.selects(source)]
    latest = _latest(candidates)
    return sorted(
        (
            candidate
            for candidate in candidates
            if options.attempt is not None or candidate.attempt == latest[candidate.name]
        ),
        key=lambda candidate: (candidate.role, candidate.index, candidate.attempt),
    )


def read(api: ApiServer, job: Job, options: LogOptions) -> Iterator[LogLine]:
    """Yield the lines that the logs of a job have now, in order of time.

    Raises:
        ClientError: a request failed.
    """
    logs = [ContainerLog(api, source, options) for source in sources(api, job, options)]
    for _, line in heapq.merge(*map(_with_times, logs), key=lambda entry: entry[0]):
        yield line


def follow(api: ApiServer, watch: JobWatch, job: Job, options: LogOptions) -> Iterator[LogEvent]:
    """Yield the job after each change, the lines of its logs as they arrive and the end of each, until all have ended.

    Raises:
        NotFound: the job was deleted; its logs have been read to their ends.
        ClientError: a request failed.
    """
    yield from _Follower(api, watch, job, options).events()


class _Follower:
    """One thread for each log, one for the job and one for its pods, which fill a bounded queue."""

    def __init__(self, api: ApiServer, watch: JobWatch, job: Job, options: LogOptions) -> None:
        self._api, self._watch, self._job, self._options = api, watch, job, options
        self._queue: EventQueue[_Item] = EventQueue()
        self._stopped = threading.Event()
        self._known: set[str] = set()
        self._reading: dict[str, ContainerLog] = {}
        self._latest: dict[str, int] = {}
        self._is_finished = False
        self._deletion: NotFound | None = None
        self._quiet_steps = 0

    def events(self) -> Iterator[LogEvent]:
        initial = sources(self._api, self._job, self._options)
        self._latest = _latest(initial)
        try:
            self._add(initial, self._options)
            self._run(self._watch_job)
            self._run(self._watch_pods)
            while not self._has_ended():
                received = self._queue.take(_STEP_SECONDS if self._is_finished else None)
                self._quiet_steps += not received
                for items in received:
                    yield from self._processed(items)
            if self._deletion is not None:
                raise self._deletion
        finally:
            self._stopped.set()
            self._queue.close()

    def _processed(self, items: list[_Item]) -> Iterator[LogEvent]:
        """Process lines of one source, or another item."""
        match items[0]:
            case Job() as job:
                yield job
                if job.is_finished and not self._is_finished:
                    self._finish(job)
            case LogSource() as source:
                self._add([source])
            case _StreamEnd(source):
                del self._reading[source.uid]
                yield source
            case _Failure(NotFound()):
                self._is_finished, self._quiet_steps = True, 0
                self._deletion = NotFound(f'job "{self._job.name}" was deleted')
            case _Failure(error):
                raise error
            case _:
                self._quiet_steps = 0
                yield cast("list[LogLine]", items)

    def _finish(self, job: Job) -> None:
        """Add the logs of pods whose start the watch has not reported yet."""
        self._add(patiently(lambda: sources(self._api, job, self._options)))
        self._is_finished, self._quiet_steps = True, 0

    def _has_ended(self) -> bool:
        if not self._is_finished:
            return False
        if not self._reading:
            return self._queue.is_empty()
        is_quiet = self._quiet_steps >= _QUIET_STEPS
        return is_quiet and not any(log.is_away for log in self._reading.values())

    def _add(self, new_sources: Iterable[LogSource], options: LogOptions | None = None) -> None:
        """Read logs that are not read yet; those that begin later, without `options`, from their first line."""
        options = options or LogOptions()
        for source in new_sources:
            is_earlier = self._options.attempt is None and source.attempt < self._latest.get(source.name, 0)
            if source.uid in self._known or is_earlier:
                continue
            self._known.add(source.uid)
            log = ContainerLog(self._api, source, options, self._stopped)
            self._reading[source.uid] = log
            self._run(lambda log=log, source=source: self._read(log, source))  # type: ignore[misc]

    def _read(self, log: ContainerLog, source: LogSource) -> None:
        place = Source()
        try:
            for batch in log.batches(follow=True):
                self._queue.put([*batch], place, sum(len(line.text) + _PER_LINE for line in batch))
        except (NoCluster, Unavailable) as error:
            self._queue.put([log.message(error)], place)
        self._queue.put([_StreamEnd(source)])

    def _watch_job(self) -> None:
        for job in self._watch(self._job.name):
            if job.uid != self._job.uid:
                raise NotFound(f'job "{job.name}" was deleted')
            self._queue.put([job])
            if job.is_finished or self._stopped.is_set():
                return

    def _watch_pods(self) -> None:
        for pod in watch_list(self._api, pods_path(self._job.namespace), f"{JOB_UID_LABEL}={self._job.uid}"):
            if self._stopped.is_set():
                return
            source = log_source(pod)
            if source is not None and self._options.selects(source):
                self._queue.put([source])

    def _run(self, task: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                task()
            except ClientError as error:
                self._queue.put([_Failure(error)])

        threading.Thread(target=guarded, daemon=True).start()


def _latest(log_sources: Iterable[LogSource]) -> dict[str, int]:
    """Return the latest attempt of each replica."""
    latest: dict[str, int] = {}
    for source in log_sources:
        latest[source.name] = max(source.attempt, latest.get(source.name, 0))
    return latest


def _with_times(log: ContainerLog) -> Iterator[tuple[str, LogLine]]:
    """Yield the lines of a log with their times; a message of the kubelet has the time of the line before."""
    moment = ""
    for batch in log.batches(follow=False):
        for line in batch:
            moment = line.time or moment
            yield moment, line
