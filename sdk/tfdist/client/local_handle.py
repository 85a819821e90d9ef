"""The handle of a job that runs on this machine."""

import time
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from tfdist.api.status import JobPhase
from tfdist.client.api_server import Json
from tfdist.client.container_log import LogLine, LogOptions
from tfdist.client.errors import NotPossible
from tfdist.client.job import Job
from tfdist.client.job_handle import JobHandle
from tfdist.client.local_logs import LocalLogs
from tfdist.client.local_run import LocalRun
from tfdist.client.logs import LogEvent
from tfdist.client.resources import Resources

_POLL_SECONDS: Final = 0.2


class LocalHandle(JobHandle):
    """Controls one job of this machine; its logs are files."""

    def __init__(self, resources: Resources[Job, Any], job: Job, run: LocalRun) -> None:
        super().__init__(resources, job)
        self._run = run

    def lines(self, options: LogOptions) -> Iterator[LogLine]:
        """Yield the lines that the logs have now, replica by replica.

        Raises:
            NotPossible: the options select an attempt or a time.
        """
        yield from LocalLogs(self._run, options).lines(last=True)

    def follow(self, options: LogOptions | None = None) -> Iterator[LogEvent]:
        """Yield the job after each change, and lines of its logs as they arrive, until it has ended.

        Raises:
            NotFound: the job was deleted.
            NotPossible: the options select an attempt or a time.
        """
        logs, last = LocalLogs(self._run, options or LogOptions()), None
        while True:
            has_ended = not self._run.is_alive()  # before the last lines are read
            job = self.refresh()
            if job != last:
                yield (last := job)
            if lines := logs.lines(last=has_ended):
                yield lines
            if has_ended:
                return
            time.sleep(_POLL_SECONDS)

    def suspend(self) -> Job:
        """Have the job save a checkpoint and stop, as Ctrl-C in `tfdist run --local` does; warn as `JobHandle` does.

        Raises:
            NotPossible: the job has finished.
            NotFound: it has been deleted.
        """
        self._unfinished("suspended")
        self._run.stop()
        return self._warned(self.refresh())

    def resume(self) -> Job:
        """Run a suspended job again, from its last checkpoint.

        Raises:
            NotPossible: the job has finished.
            NotFound: it has been deleted.
        """
        if self._unfinished("resumed").phase is JobPhase.SUSPENDED:
            self._run.start_again()
        return self.refresh()

    def pods(self) -> list[Json]:
        """Return nothing: the replicas are processes."""
        return []

    def restart(self) -> NoReturn:
        """Raise an error: a local run is restarted by `suspend` and `resume`."""
        raise NotPossible(
            f'job "{self.name}" runs on this machine, where no restart is requested: suspend it and resume it'
        )

    def scale(self, workers: int) -> NoReturn:
        """Raise an error: the number of workers of a local run does not change."""
        raise NotPossible(f'job "{self.name}" runs on this machine: cancel it and submit it with {workers} workers')

    def events(self) -> NoReturn:
        """Raise an error: only a cluster has events."""
        raise NotPossible(f"there are no events without a cluster; the messages are in {self._run.log_path}")

    def follow_events(self) -> NoReturn:
        """Raise an error: only a cluster has events."""
        self.events()
