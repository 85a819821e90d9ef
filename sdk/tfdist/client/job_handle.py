"""The handle of one job."""

import html
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.status import JobPhase
from tfdist.client.api_server import Json, jobs_path
from tfdist.client.backend import ObjectKind
from tfdist.client.container_log import LogLine, LogOptions
from tfdist.client.errors import JobFailed, NotPossible
from tfdist.client.events import JobEvent
from tfdist.client.handle import Handle
from tfdist.client.job import Job, JobResult, described, result_of, returned_value
from tfdist.client.logs import LogEvent
from tfdist.messages import count
from tfdist.render.names import RESTART_ANNOTATION
from tfdist.timestamps import rfc3339


class JobHandle(Handle[Job]):
    """Controls one job, which another job of the same name does not replace."""

    def __repr__(self) -> str:
        return f"<Job {' '.join(described(self.job))}>"

    def _repr_html_(self) -> str:
        name, *fields = map(html.escape, described(self.job))
        return f"<b>{name}</b> {' &middot; '.join(fields)}"

    @property
    def job(self) -> Job:
        """The job as it was last read."""
        return self._stored

    def wait(self, timeout: float | None = None) -> JobResult:
        """Wait until the job has ended, and return its outcome.

        Args:
            timeout: seconds; default: wait forever.

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

    def result(self, timeout: float | None = None) -> Any:
        """Wait until the job has ended, and return what its function has returned on the chief, or on worker 0.

        Args:
            timeout: seconds; default: wait forever.

        Raises:
            NotPossible: the job calls no function, or the value is not in its status; the message says why.
            JobFailed: the job has failed or is invalid, with the message of its condition.
            WaitTimeout: it has not ended in time.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        if not self.job.calls_function:
            raise NotPossible(f'job "{self.name}" calls no function of tfdist.job, so it has no result: see wait')
        self.wait(timeout)
        return returned_value(self.name, self.job.status.function_result)

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
            role: only replicas of this role, such as `worker`; default: all roles.
            index: only the replica with this index in its role; default: all replicas.
            attempt: number of an attempt whose pods are kept; default: each replica's latest attempt.
            since: only lines of the last `since` seconds.
            tail: only the last `tail` lines of each log.
            follow: continue as lines are written, in later attempts too, until the job has ended. Then lines of
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
        return self._resources.backend.lines(self.job, options)

    def follow(self, options: LogOptions | None = None) -> Iterator[LogEvent]:
        """Yield the job after each change, lines of its logs as they arrive and the end of each, until all have ended.

        Raises:
            NotFound: the job was deleted.
            ClientError: a request failed.
        """
        for event in self._resources.backend.follow(self.job, options or LogOptions()):
            if isinstance(event, Job):
                self._stored = event
            yield event

    def pods(self) -> list[Json]:
        """Return the pods of the job as JSON, including kept pods of earlier attempts.

        Raises:
            ClientError: the request failed.
        """
        return self._resources.backend.pods(self.job)

    def events(self) -> list[JobEvent]:
        """Return the events of the job and its pods that the cluster still has (by default for an hour), newest last.

        Raises:
            ClientError: a request failed.
        """
        return [*self._resources.backend.events(self.job, follow=False)]

    def follow_events(self) -> Iterator[JobEvent]:
        """Yield the events of the job and its pods, then each new one, until the job is deleted.

        Raises:
            NotFound: the job was deleted.
            ClientError: a request failed.
        """
        return self._resources.backend.events(self.job, follow=True)

    def restart(self) -> Job:
        """Restart the gang; the restart is not counted. Python warns about lost steps as `suspend` does.

        Raises:
            NotPossible: the job has finished or is suspended.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        if self._unfinished("restarted").is_suspended:
            raise NotPossible(
                f'job "{self.name}" is suspended: resume it instead; it starts with its newest specification'
            )
        change = {"metadata": {"annotations": {RESTART_ANNOTATION: rfc3339(datetime.now(UTC))}}}
        return self._warned(self._patch(change))

    def scale(self, workers: int) -> Job:
        """Set the number of workers of a job that is suspended or has not started; `resume` starts it with them.

        Raises:
            NotPossible: the job has finished, or has no workers.
            Invalid: the job is running.
            NotFound: it has been deleted.
            ClientError: a request failed.
        """
        if "worker" not in self._unfinished("scaled").spec:
            raise NotPossible(f'job "{self.name}" has no workers: spec.worker is not set')
        return self._patch({"spec": {"worker": {"replicas": workers}}})

    def _remaining(self) -> str:
        """Return the job, or its pods, as text; "" if all are deleted."""
        if remaining := super()._remaining():
            return remaining
        owned = [
            pod["metadata"]["name"]
            for pod in self.pods()
            if any(owner["uid"] == self.job.uid for owner in pod["metadata"].get("ownerReferences") or ())
        ]
        return f"{count(len(owned), 'pod')} of it, such as {owned[0]}" if owned else ""

    @staticmethod
    def _suspension(*, suspend: bool) -> Json:
        return {"spec": {"runPolicy": {"suspend": suspend}}}


JOBS: Final = ObjectKind("job", API_VERSION, KIND, jobs_path, Job, JobHandle)
