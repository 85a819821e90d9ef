"""The handle of one job, which another job of the same name does not replace."""

import contextlib
import html
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from tfdist.api.status import JobPhase
from tfdist.client import follow as logs
from tfdist.client.errors import JobFailed, NotFound, WaitTimeout
from tfdist.client.events import Event
from tfdist.client.follow import LogEvent
from tfdist.client.job import Job, JobResult, described, result_of
from tfdist.client.log_stream import LogLine
from tfdist.client.logs import LogOptions
from tfdist.messages import count

if TYPE_CHECKING:
    from tfdist.client.client import Client


_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0


class JobHandle:
    """Controls one job; it stays valid while the client that made it is, and from any other process by its name."""

    def __init__(self, client: "Client", job: Job) -> None:
        self._client = client
        self._job = job

    def __repr__(self) -> str:
        return f"<Job {' '.join(described(self._job))}>"

    def _repr_html_(self) -> str:
        name, *fields = map(html.escape, described(self._job))
        return f"<b>{name}</b> {' &middot; '.join(fields)}"

    @property
    def name(self) -> str:
        """Name of the job."""
        return self._job.name

    @property
    def namespace(self) -> str:
        """Namespace of the job."""
        return self._job.namespace

    @property
    def job(self) -> Job:
        """The job as it was last read."""
        return self._job

    def refresh(self) -> Job:
        """Read the job again and return it.

        Raises:
            NotFound: it has been deleted, or another one has its name.
            ClientError: the request failed.
        """
        return self._read(self._client.get(self.name))

    def watch(self, *, seconds: float | None = None) -> Iterator[Job]:
        """Yield the job, and again after each change, for so many `seconds`, by default without end.

        Raises:
            NotFound: it has been deleted, or another one has its name.
            ClientError: the request failed.
        """
        for job in self._client.watch(self.name, seconds=seconds):
            yield self._read(job)

    def wait(self, timeout: float | None = None) -> JobResult:
        """Wait until the job has ended, and return its outcome.

        Args:
            timeout: seconds; by default without end.

        Raises:
            JobFailed: the job has failed or is invalid, with the message of its condition.
            WaitTimeout: it has not ended in time.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        job = self.wait_for(timeout=timeout)
        if job.phase is not JobPhase.SUCCEEDED:
            raise JobFailed(f"{job.name} {job.phase.lower()}: {job.message}")
        return result_of(job)

    def wait_for(self, phases: Iterable[str] = (), timeout: float | None = None) -> Job:
        """Wait until the job has one of `phases`, or has ended, and return it.

        Raises:
            WaitTimeout: it has not got there in time.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        wanted = frozenset(phases)
        for job in self.watch(seconds=timeout):
            restarting = job.is_restarting_on_request
            if job.is_finished or (job.phase in wanted and job.is_current and not restarting):
                return job
        reason = f": {self._job.message}" if self._job.message else ""
        raise WaitTimeout(f"{self.name} is {self._job.phase} after {timeout:g} s{reason}")

    def logs(
        self,
        role: str | None = None,
        index: int | None = None,
        attempt: int | None = None,
        since: float | None = None,
        tail: int | None = None,
        follow: bool = False,
    ) -> Iterator[LogLine]:
        """Yield the lines of the replicas' logs, in order of time.

        Args:
            role: such as `worker`; by default all.
            index: of the replica in its role; by default all.
            attempt: number of one whose pods are kept; by default the latest of each replica.
            since: only lines of the last so many seconds.
            tail: only so many lines at the end of each log.
            follow: go on as lines are written, in later attempts too, until the job has ended. Then lines of
                different replicas are in the order in which they arrive.

        Raises:
            NotFound: the job was deleted.
            ClientError: a request failed.
        """
        options = LogOptions(role=role, index=index, attempt=attempt, since=since, tail=tail)
        if not follow:
            yield from self.lines(options)
            return
        for event in self.follow(options):
            if isinstance(event, list):
                yield from event

    def tail(self, lines: int = 10, role: str | None = None, index: int | None = None) -> list[LogLine]:
        """Return the last lines of each log, in order of time.

        Raises:
            ClientError: a request failed.
        """
        return list(self.logs(role, index, tail=lines))

    def lines(self, options: LogOptions) -> Iterator[LogLine]:
        """Yield the lines that the logs have now, in order of time.

        Raises:
            ClientError: a request failed.
        """
        return logs.read(self._client, self._job, options)

    def follow(self, options: LogOptions | None = None) -> Iterator[LogEvent]:
        """Yield the job after each change, lines of its logs as they arrive and the end of each, until all have ended.

        Raises:
            NotFound: the job was deleted.
            ClientError: a request failed.
        """
        for event in logs.follow(self._client, self._job, options or LogOptions()):
            if isinstance(event, Job):
                self._job = event
            yield event

    def delete(self) -> None:
        """Delete the job, and no other one of its name."""
        self._client.delete(self.name, uid=self._job.uid)

    def wait_deleted(self, timeout: float | None = None) -> None:
        """Wait until the job and its pods are deleted, after `delete`.

        Raises:
            WaitTimeout: they are not gone in time.
            ClientError: a request failed.
        """
        end = None if timeout is None else time.monotonic() + timeout
        pause = _FIRST_PAUSE
        while remaining := self._remaining():
            if end is not None and time.monotonic() >= end:
                raise WaitTimeout(f"after {timeout:g} s there is still {remaining}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _remaining(self) -> str:
        """Return the remaining objects as text: the job, or its pods; "" if all are deleted."""
        with contextlib.suppress(NotFound):
            if self._client.get(self.name).uid == self._job.uid:
                return f'job "{self.name}"'
        owned = [
            pod["metadata"]["name"]
            for pod in self._client.pods(self.name)
            if any(owner["uid"] == self._job.uid for owner in pod["metadata"].get("ownerReferences") or ())
        ]
        return f"{count(len(owned), 'pod')} of it, such as {owned[0]}" if owned else ""

    def suspend(self) -> Job:
        """Have the job save a checkpoint and stop."""
        return self._read(self._client.suspend(self.name))

    def resume(self) -> Job:
        """Continue the job from its last checkpoint."""
        return self._read(self._client.resume(self.name))

    def restart(self) -> Job:
        """Restart the gang; the restart is not counted."""
        return self._read(self._client.restart(self.name))

    def scale(self, workers: int) -> Job:
        """Set the number of workers."""
        return self._read(self._client.scale(self.name, workers))

    def events(self) -> list[Event]:
        """Return the events of the job and its pods, newest last."""
        return self._client.events(self.name)

    def _read(self, job: Job) -> Job:
        if job.uid != self._job.uid:
            raise NotFound(f"job {self.name} was deleted; another one has its name now")
        self._job = job
        return job
