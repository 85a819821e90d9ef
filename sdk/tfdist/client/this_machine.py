"""This machine as the backend of the client: jobs are processes, and files answer what an API server would.

Each job is run by a process of its own (`tfdist.local.background`), which goes on when this one ends. Its run directory
has the job, its status and its logs, so another client finds it again.
"""

import importlib.util
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tfdist.api.resource import KIND
from tfdist.api.status import JobPhase
from tfdist.client.api_server import Json
from tfdist.client.backend import Kind
from tfdist.client.container_log import LogLine, LogOptions
from tfdist.client.errors import AlreadyExists, NotFound, NotPossible
from tfdist.client.events import JobEvent
from tfdist.client.job import Job
from tfdist.client.local_run import LocalLogs, LocalRun
from tfdist.client.logs import LogEvent
from tfdist.timestamps import rfc3339

if TYPE_CHECKING:
    from tfdist.client.submission import Submission  # see `backend`

FOLDER: Final = ".tfdist"

_NAMESPACE: Final = "default"
_POLL_SECONDS: Final = 0.2


class ThisMachine:
    """The run directories of jobs below a folder; the directory of a job has its name."""

    namespace = _NAMESPACE
    runs_here = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self, kind: Kind, submission: "Submission", *, dry_run: bool) -> Json:
        """Start a job; if a job of this name has finished, again, from its checkpoints.

        Raises:
            Invalid: the job is invalid.
            AlreadyExists: a job of this name is running.
            CodeError: the code cannot be uploaded.
            NotPossible: the object is a sweep, or the trainer, which unpacks code, is not installed here.
        """
        from tfdist.client.submission import check  # noqa: PLC0415  see TYPE_CHECKING

        _check_kind(kind)
        check(submission.job)
        if (submission.code or submission.upload) and importlib.util.find_spec("tfdist_trainer") is None:
            raise NotPossible("the code of a job is unpacked by the trainer, which is not installed here: "
                              "pip install tfdist-trainer")  # fmt: skip
        run = self._run(submission.job["metadata"]["name"])
        if run.is_alive():
            raise AlreadyExists(f'job "{run.name}" is running in {run.path}: wait for its end, or delete it')
        job: Json = submission.job | {"metadata": submission.job["metadata"] | _new_metadata()}
        if not dry_run:
            if submission.upload is not None:
                submission.upload.run()
            self._make_folder()
            run.start(job, [*submission.config_maps, *submission.code])
        return job

    def get(self, kind: Kind, namespace: str, name: str) -> Json:  # noqa: ARG002  there is one
        """See `Backend`."""
        _check_kind(kind)
        manifest = self._run(name).manifest()
        if manifest is None:
            raise self._not_found(name)
        return manifest

    def items(self, kind: Kind, namespace: str | None, selector: str | None) -> Iterator[Json]:  # noqa: ARG002
        """See `Backend`: by name."""
        _check_kind(kind)
        wanted = dict(part.strip().partition("=")[::2] for part in (selector or "").split(",") if part.strip())
        for path in sorted(self.folder.glob("*")):
            manifest = LocalRun(path).manifest() if path.is_dir() else None
            if manifest and wanted.items() <= (manifest["metadata"].get("labels") or {}).items():
                yield manifest

    def watch(self, kind: Kind, namespace: str, name: str, seconds: float | None) -> Iterator[Json]:
        """See `Backend`."""
        last: Json | None = None
        end = float("inf") if seconds is None else time.monotonic() + seconds
        while True:
            job = self.get(kind, namespace, name)
            if job != last:
                yield (last := job)
            if time.monotonic() >= end:
                return
            time.sleep(_POLL_SECONDS)

    def patch(self, kind: Kind, namespace: str, name: str, change: Json) -> Json:
        """Suspend a job, as Ctrl-C in `tfdist run --local` does, or run it again from its last checkpoint.

        Raises:
            NotFound: there is no job of the name.
            NotPossible: the change is another one.
        """
        job = self.get(kind, namespace, name)
        if change == {"spec": {"runPolicy": {"suspend": True}}}:
            self._run(name).stop()
        elif change == {"spec": {"runPolicy": {"suspend": False}}}:
            if Job(job).phase is JobPhase.SUSPENDED:
                self._run(name).start_again()
        else:
            raise NotPossible(f'job "{name}" runs on this machine, where it can only be suspended and resumed: delete '
                              "it, and submit it again")  # fmt: skip
        return self.get(kind, namespace, name)

    def delete(self, kind: Kind, namespace: str, name: str, uid: str | None) -> None:
        """Stop a job within its grace period, and remove it from the list; its logs and volumes stay."""
        job = Job(self.get(kind, namespace, name))
        if uid not in {None, job.uid}:
            raise NotFound(f"job {name} was deleted; another one has its name now")
        self._run(name).remove()

    def pods(self, job: Job) -> list[Json]:  # noqa: ARG002  see `Backend`
        """Return nothing: the replicas are processes."""
        return []

    def lines(self, job: Job, options: LogOptions) -> Iterator[LogLine]:
        """See `Backend`: replica by replica.

        Raises:
            NotPossible: the options select an attempt or a time.
        """
        return iter(LocalLogs(self._run(job.name), options).lines(last=True))

    def follow(self, job: Job, options: LogOptions) -> Iterator[LogEvent]:
        """See `Backend`.

        Raises:
            NotPossible: the options select an attempt or a time.
        """
        run = self._run(job.name)
        logs, last = LocalLogs(run, options), None
        while True:
            has_ended = not run.is_alive()  # before the last lines are read
            manifest = run.manifest()
            if manifest is None or Job(manifest).uid != job.uid:
                raise self._not_found(job.name)
            if manifest != last:
                last = manifest
                yield Job(manifest)
            if lines := logs.lines(last=has_ended):
                yield lines
            if has_ended:
                return
            time.sleep(_POLL_SECONDS)

    def events(self, job: Job, *, follow: bool) -> Iterator[JobEvent]:  # noqa: ARG002  see `Backend`
        """Raise an error: only a cluster has events."""
        raise NotPossible(f"there are no events without a cluster; the messages are in {self._run(job.name).log_path}")

    def _run(self, name: str) -> LocalRun:
        """Return the run directory of a job.

        Raises:
            NotFound: no job can have this name.
        """
        if not name or Path(name).name != name:
            raise self._not_found(name)
        return LocalRun(self.folder / name)

    def _not_found(self, name: str) -> NotFound:
        return NotFound(f'job "{name}" not found in {self.folder}')

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        ignore_file = self.folder / ".gitignore"
        if not ignore_file.exists():
            ignore_file.write_text("*\n", encoding="utf-8")


def _check_kind(kind: Kind) -> None:
    if kind.kind != KIND:
        raise NotPossible(f"{kind.noun}s need a cluster, whose controller runs them")


def _new_metadata() -> dict[str, Any]:
    """Return the metadata that the API server would add."""
    return {
        "uid": str(uuid.uuid4()),
        "creationTimestamp": rfc3339(datetime.now(UTC)),
        "generation": 1,
        "resourceVersion": "1",
    }
