"""The handle of a job that runs on this machine."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tfdist.client.follow import LogEvent
from tfdist.client.handle import JobHandle
from tfdist.client.job import Job
from tfdist.client.local_logs import LocalLogs
from tfdist.client.local_run import LocalRun
from tfdist.client.log_stream import LogLine
from tfdist.client.logs import LogOptions

if TYPE_CHECKING:
    from tfdist.client.local_client import LocalClient

_POLL_SECONDS: Final = 0.2


class LocalHandle(JobHandle):
    """Controls one job of this machine; its logs are files."""

    def __init__(self, client: "LocalClient", job: Job, run: LocalRun) -> None:
        super().__init__(client, job)
        self._run, self._pause = run, client.pause

    def lines(self, options: LogOptions) -> Iterator[LogLine]:
        """Yield the lines that the logs have now, replica by replica.

        Raises:
            NotPossible: those of an attempt or a time are wanted.
        """
        yield from LocalLogs(self._run, options).lines(last=True)

    def follow(self, options: LogOptions | None = None) -> Iterator[LogEvent]:
        """Yield the job after each change, and lines of its logs as they arrive, until it has ended.

        Raises:
            NotFound: the job was deleted.
            NotPossible: the logs of an attempt or a time are wanted.
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
            self._pause(_POLL_SECONDS)
