"""A batch: jobs with a common label, of which a limited number is unfinished at a time.

Nothing runs in the background: the next jobs are created while the batch is iterated or waited for. The label finds
the jobs again from another process (`Client.batch`).
"""

import contextlib
import html
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tfdist.api.status import JobPhase
from tfdist.client.code_archive import CodeArchive
from tfdist.client.errors import AlreadyExists, BatchFailed, ClientError, FunctionError, NotFound, WaitTimeout
from tfdist.client.job import Job, JobResult, result_of
from tfdist.client.job_handle import JobHandle
from tfdist.client.resources import Resources
from tfdist.client.submission import Submission, generated_name, prepare_changed
from tfdist.client.watch import patiently
from tfdist.messages import count

LABEL: Final = "tfdist.dev/batch"
INDEX_LABEL: Final = "tfdist.dev/batch-index"
NOT_SUBMITTED: Final = "NotSubmitted"
DELETED: Final = "Deleted"

_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_SHOWN_FAILURES: Final = 3

Prepared = tuple[dict[str, Any], CodeArchive | None]
"""The manifest of a job that is not submitted yet, and its code."""
Jobs = Resources[Job, JobHandle]


class BatchHandle:
    """Controls the jobs of a batch."""

    def __init__(
        self, resources: Jobs, name: str, waiting: Sequence[Prepared] = (), parallelism: int | None = None
    ) -> None:
        self.name = name
        self._resources = resources
        self._waiting = deque(waiting)
        self._next: Submission | None = None
        """The first waiting job; a second try finds the job if the first created it but got no answer."""
        self._parallelism = parallelism or len(waiting)
        self._jobs: dict[str, Job] = {}
        """The jobs as they were last read, by name."""
        self._deleted: set[str] = set()
        """Names of jobs that were deleted before they had finished."""

    @property
    def jobs(self) -> list[JobHandle]:
        """Handles of the jobs that have been submitted, in the order of their arguments."""
        return [self._resources.handle(job) for job in sorted(self._jobs.values(), key=_index)]

    def __len__(self) -> int:
        return len(self._jobs) + len(self._waiting)

    def __repr__(self) -> str:
        return f"<Batch {self.name}: {_text(self._counts())}>"

    def _repr_html_(self) -> str:
        return f"<b>{html.escape(self.name)}</b> {html.escape(_text(self._counts()))}"

    def refresh(self) -> None:
        """Read all jobs again; while the API server is away the request is repeated, for up to five minutes.

        Raises:
            ClientError: the request failed.
        """
        jobs = patiently(lambda: self._resources.list(selector=f"{LABEL}={self.name}"), float("inf"))
        names = {job.name for job in jobs}
        self._deleted |= {name for name, job in self._jobs.items() if name not in names and not job.is_finished}
        self._jobs |= {job.name: job for job in jobs}

    def submit_next(self) -> None:
        """Create waiting jobs, as many as `parallelism` permits.

        Raises:
            ClientError: a job cannot be created; the next call tries it again.
        """
        while self._waiting and len(self._unfinished()) < self._parallelism:
            if self._next is None:
                manifest, archive = self._waiting[0]
                self._next = prepare_changed(manifest, self._resources.namespace, archive, {}, ())
            handle = self._resources.create(self._next)
            self._jobs[handle.name] = handle.job
            self._waiting.popleft()
            self._next = None

    def as_completed(self, timeout: float | None = None) -> Iterator[JobHandle]:
        """Yield each job once it has finished, whether it has succeeded or not, and create the next ones.

        Args:
            timeout: seconds for the whole batch; default: wait forever.

        Raises:
            WaitTimeout: jobs are unfinished after the timeout.
            ClientError: a request failed, or a job cannot be created.
        """
        end = None if timeout is None else time.monotonic() + timeout
        reported: set[str] = set()
        pause = _FIRST_PAUSE
        while True:
            self.refresh()
            self.submit_next()
            ended = [handle for handle in self.jobs if handle.name not in reported and self._has_ended(handle.job)]
            if ended:
                reported |= {handle.name for handle in ended}
                yield from ended
            if not self._waiting and len(reported) == len(self._jobs):
                return
            if ended:
                pause = _FIRST_PAUSE
                continue
            if end is not None and time.monotonic() >= end:
                raise WaitTimeout(f"batch {self.name} after {timeout:g} s: {_text(self._counts())}")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def wait(self, timeout: float | None = None) -> None:
        """Wait until all jobs have finished, whether they have succeeded or not.

        Raises:
            WaitTimeout: jobs are unfinished after the timeout.
            ClientError: a request failed, or a job cannot be created.
        """
        for _ in self.as_completed(timeout):
            pass

    def results(self, timeout: float | None = None) -> list[JobResult]:
        """Wait until all jobs have finished, and return their outcomes in the order of their arguments.

        Raises:
            BatchFailed: not all have succeeded; `failures` returns the failed jobs.
            WaitTimeout: jobs are unfinished after the timeout.
            ClientError: a request failed, or a job cannot be created.
        """
        self.wait(timeout)
        failed = self._failed()
        if failed:
            texts = [self._failure(handle.job) for handle in failed[:_SHOWN_FAILURES]]
            remainder = [f"and {len(failed) - len(texts)} more"] if len(failed) > len(texts) else []
            raise BatchFailed(f"{len(failed)} of {count(len(self), 'job')} failed: {'; '.join([*texts, *remainder])}")
        return [result_of(handle.job) for handle in self.jobs]

    def failures(self) -> list[JobHandle]:
        """Return the jobs that have failed, are invalid, or were deleted before they had finished; it does not wait.

        Raises:
            ClientError: the request failed.
        """
        self.refresh()
        return self._failed()

    def status(self) -> dict[str, int]:
        """Return the numbers of jobs in each phase, of jobs that are not submitted yet, and of deleted jobs.

        Raises:
            ClientError: the request failed.
        """
        self.refresh()
        return self._counts()

    def cancel(self) -> None:
        """Delete the unfinished jobs, and submit no more.

        Raises:
            ClientError: a request failed.
        """
        self._waiting.clear()
        self.refresh()
        self.delete_unfinished()

    def delete_unfinished(self) -> None:
        """Delete the jobs that had not finished when they were last read.

        Raises:
            ClientError: a request failed.
        """
        for job in self._unfinished():
            with contextlib.suppress(NotFound):
                self._resources.delete(job.name, uid=job.uid)
            self._deleted.add(job.name)

    def _has_ended(self, job: Job) -> bool:
        return job.is_finished or job.name in self._deleted

    def _unfinished(self) -> list[Job]:
        return [job for job in self._jobs.values() if not self._has_ended(job)]

    def _failed(self) -> list[JobHandle]:
        return [
            handle for handle in self.jobs if self._has_ended(handle.job) and handle.job.phase is not JobPhase.SUCCEEDED
        ]

    def _failure(self, job: Job) -> str:
        return f"{job.name} deleted" if job.name in self._deleted else f"{job.name} {job.phase.lower()}: {job.message}"

    def _counts(self) -> dict[str, int]:
        counts = Counter(DELETED if job.name in self._deleted else str(job.phase) for job in self._jobs.values())
        if self._waiting:
            counts[NOT_SUBMITTED] = len(self._waiting)
        return dict(counts)


def new_batch(
    resources: Jobs, name: str | None, prefix: str, prepared: Sequence[Prepared], parallelism: int | None
) -> BatchHandle:
    """Create the first jobs of a batch and return its handle; if one cannot be created, all are deleted again.

    Raises:
        FunctionError: `parallelism` is not a positive number.
        AlreadyExists: a batch, or a job, of this name exists.
        ClientError: a job cannot be created.
    """
    if parallelism is not None and parallelism < 1:
        raise FunctionError(f"parallelism is {parallelism}; at least one job must run at a time")
    if name and resources.list(selector=f"{LABEL}={name}"):
        raise AlreadyExists(f'batch "{name}" already exists: choose another name, or delete its jobs')
    batch = name or generated_name(prefix)
    jobs = [(_member(manifest, batch, index), archive) for index, (manifest, archive) in enumerate(prepared)]
    handle = BatchHandle(resources, batch, jobs, parallelism)
    try:
        handle.submit_next()
    except BaseException:
        with contextlib.suppress(ClientError):
            handle.delete_unfinished()
        raise
    return handle


def find_batch(resources: Jobs, name: str) -> BatchHandle:
    """Return the batch whose jobs have the label with this name.

    Raises:
        NotFound: no job has the label.
        ClientError: the request failed.
    """
    handle = BatchHandle(resources, name)
    handle.refresh()
    if not handle.jobs:
        raise NotFound(f'batch "{name}" not found in namespace "{resources.namespace}"')
    return handle


def _member(manifest: Mapping[str, Any], batch: str, index: int) -> dict[str, Any]:
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "generateName"}
    labels = {**metadata.get("labels", {}), LABEL: batch, INDEX_LABEL: str(index)}
    return {**manifest, "metadata": metadata | {"name": f"{batch}-{index}", "labels": labels}}


def _index(job: Job) -> tuple[int, str]:
    index = str((job.manifest["metadata"].get("labels") or {}).get(INDEX_LABEL, ""))
    return (int(index) if index.isdecimal() else 0, job.name)


def _text(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {phase}" for phase, number in sorted(counts.items())) or "no job"
