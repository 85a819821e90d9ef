"""The logs of all replicas of a job: as they are now, or followed through restarts to the end of the job."""

import heapq
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from queue import Empty, SimpleQueue
from typing import Final, cast

from tfdist.client.api_server import ApiServer, pods_path
from tfdist.client.container_log import ContainerLog, LogLine, LogOptions, LogSource, log_source
from tfdist.client.errors import ClientError, NoCluster, NotFound, Unavailable
from tfdist.client.job import Job
from tfdist.client.replica_pods import pods_of
from tfdist.client.watch import patiently, watch_list
from tfdist.render.names import JOB_UID_LABEL

JobWatch = Callable[[str], Iterator[Job]]
"""Yields the job of a name, and again after each change."""
LogEvent = Job | list[LogLine] | LogSource
"""What following a job yields: the job after a change, lines as they arrived, or the source of a log that has ended."""

_PER_LINE: Final = 300
"""Memory of a line in addition to its text."""
_ROOM: Final = 2**18
"""Size of the lines of a log that wait for the reader; then the log is not read on before these are taken."""
_STEP_SECONDS: Final = 0.5
_QUIET_STEPS: Final = 60
"""How often nothing may arrive for a step when the job has ended: the node of a pod may be lost.

Steps, for time also passes while the process is stopped (Ctrl-Z), or waits for whoever reads its output.
"""


def sources(api: ApiServer, job: Job, options: LogOptions) -> list[LogSource]:
    """Return the logs of a job that exist, by default of the latest attempt of each replica.

    Raises:
        ClientError: the request failed.
    """
    pods = pods_of(api, job.namespace, job.name)
    own = (log_source(pod) for pod in pods if pod["metadata"]["labels"].get(JOB_UID_LABEL) == job.uid)
    found = [source for source in own if source and options.selects(source.name, source.attempt)]
    latest = dict(sorted((source.name, source.attempt) for source in found))
    wanted = (source for source in found if options.attempt is not None or source.attempt == latest[source.name])
    return sorted(wanted, key=lambda source: (source.role, source.index, source.attempt))


def read(api: ApiServer, job: Job, options: LogOptions) -> Iterator[LogLine]:
    """Yield the lines that the logs of a job have now, in order of time.

    Raises:
        ClientError: a request failed.
    """
    found = sources(api, job, options)
    logs = [ContainerLog(api, source, options, threading.Event()) for source in found]
    for _, line in heapq.merge(*map(_with_times, logs), key=lambda entry: entry[0]):
        yield line


def follow(api: ApiServer, watch: JobWatch, job: Job, options: LogOptions) -> Iterator[LogEvent]:
    """Yield the job after each change, the lines of its logs as they arrive and the end of each, until all have ended.

    Raises:
        NotFound: the job was deleted; its logs have been read to their ends.
        ClientError: a request failed.
    """
    yield from _Follower(api, watch, job, options).events()


_Item = Job | list[LogLine] | LogSource | ContainerLog | ClientError | threading.Event
"""A changed job, lines, a log that has begun, one that has ended, an error, or how far a log may be read ahead."""


class _Follower:
    """One thread for each log, one for the job and one for its pods, which fill a bounded queue."""

    def __init__(self, api: ApiServer, watch: JobWatch, job: Job, options: LogOptions) -> None:
        self._api, self._watch, self._job, self._options = api, watch, job, options
        self._queue: SimpleQueue[_Item] = SimpleQueue()
        self._stopped = threading.Event()
        self._known: set[str] = set()
        self._reading: dict[str, ContainerLog] = {}
        self._latest: dict[str, int] = {}
        self._is_finished = False
        self._deletion: NotFound | None = None
        self._quiet_steps = 0

    def events(self) -> Iterator[LogEvent]:
        initial = sources(self._api, self._job, self._options)
        self._latest = dict(sorted((source.name, source.attempt) for source in initial))
        try:
            self._add(initial, self._options)
            self._run(self._watch_job)
            self._run(self._watch_pods)
            while not self._has_ended():
                items = self._arrived()
                self._quiet_steps += not items
                for is_lines, group in groupby(items, lambda item: isinstance(item, list)):
                    if is_lines:
                        self._quiet_steps = 0
                        yield list(chain.from_iterable(cast("Iterator[list[LogLine]]", group)))
                    else:
                        yield from chain.from_iterable(map(self._processed, group))
            if self._deletion is not None:
                raise self._deletion
        finally:
            self._stopped.set()

    def _arrived(self) -> list[_Item]:
        """Return all that is in the queue; nothing if nothing arrives for a step."""
        try:
            items = [self._queue.get(timeout=_STEP_SECONDS)]
        except Empty:
            return []
        items += [self._queue.get() for _ in range(self._queue.qsize())]
        for item in items:
            if isinstance(item, threading.Event):
                item.set()
        return [item for item in items if not isinstance(item, threading.Event)]

    def _processed(self, item: _Item) -> Iterator[LogEvent]:
        match item:
            case Job():
                yield item
                if item.is_finished and not self._is_finished:
                    # The watch may not have reported the start of the last pods yet.
                    self._add(patiently(lambda: sources(self._api, item, self._options)))
                    self._is_finished, self._quiet_steps = True, 0
            case LogSource():
                self._add([item])
            case ContainerLog(source=source):
                del self._reading[source.uid]
                yield source
            case NotFound():
                self._is_finished, self._quiet_steps = True, 0
                self._deletion = NotFound(f'job "{self._job.name}" was deleted')
            case ClientError():
                raise item

    def _has_ended(self) -> bool:
        if not self._is_finished:
            return False
        if not self._reading:
            return self._queue.empty()
        return self._quiet_steps >= _QUIET_STEPS and not any(log.is_away for log in self._reading.values())

    def _add(self, found: Iterable[LogSource], options: LogOptions | None = None) -> None:
        """Read logs that are not read yet; those that begin later, without `options`, from their first line."""
        for source in found:
            is_earlier = self._options.attempt is None and source.attempt < self._latest.get(source.name, 0)
            if source.uid not in self._known and not is_earlier:
                self._known.add(source.uid)
                self._reading[source.uid] = log = ContainerLog(
                    self._api, source, options or LogOptions(), self._stopped
                )
                self._run(self._read, log)

    def _read(self, log: ContainerLog) -> None:
        ahead = 0
        try:
            for batch in log.batches(follow=True):
                self._queue.put(batch)
                ahead += sum(len(line.text) + _PER_LINE for line in batch)
                if ahead > _ROOM:
                    ahead, taken = 0, threading.Event()
                    self._queue.put(taken)
                    while not taken.wait(_STEP_SECONDS) and not self._stopped.is_set():
                        pass
        except (NoCluster, Unavailable) as error:
            self._queue.put([log.message(error)])
        self._queue.put(log)

    def _watch_job(self) -> None:
        for job in self._watch(self._job.name):
            if job.uid != self._job.uid:
                raise NotFound(f'job "{job.name}" was deleted')
            self._queue.put(job)
            if job.is_finished or self._stopped.is_set():
                return

    def _watch_pods(self) -> None:
        for pod in watch_list(self._api, pods_path(self._job.namespace), f"{JOB_UID_LABEL}={self._job.uid}"):
            if self._stopped.is_set():
                return
            source = log_source(pod)
            if source is not None and self._options.selects(source.name, source.attempt):
                self._queue.put(source)

    def _run(self, task: Callable[..., None], *arguments: ContainerLog) -> None:
        def guarded() -> None:
            try:
                task(*arguments)
            except ClientError as error:
                self._queue.put(error)

        threading.Thread(target=guarded, daemon=True).start()


def _with_times(log: ContainerLog) -> Iterator[tuple[str, LogLine]]:
    """Yield the lines of a log with their times; a message of the kubelet gets the time of the previous line."""
    moment = ""
    for line in chain.from_iterable(log.batches(follow=False)):
        moment = line.time or moment
        yield moment, line
