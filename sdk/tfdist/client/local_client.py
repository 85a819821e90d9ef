"""The client for jobs that are processes of this machine: the same methods, without a cluster.

Each job is run by a process of its own (`tfdist.local.background`), which goes on when this one ends. Its run directory
has the job, its status and its logs, so another client finds it again.
"""

import builtins
import importlib.util
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from tfdist.api.status import JobPhase
from tfdist.client.client import Client
from tfdist.client.errors import AlreadyExists, NotFound, NotPossible
from tfdist.client.events import Event
from tfdist.client.job import Job, with_warning
from tfdist.client.local_handle import LocalHandle
from tfdist.client.local_run import LocalRun
from tfdist.client.log_stream import LogLine
from tfdist.client.submission import Submission, check
from tfdist.messages import suggest
from tfdist.timestamps import rfc3339

_FOLDER: Final = ".tfdist"
_NAMESPACE: Final = "default"
_POLL_SECONDS: Final = 0.2


class LocalClient(Client):
    """Runs jobs as processes of this machine.

    >>> client = LocalClient()
    >>> client.submit(manifest, code=".").wait()
    """

    def __init__(self, folder: str | Path = _FOLDER) -> None:
        """Use the run directories below a folder; that of a job has its name."""
        self.folder = Path(folder).resolve()
        self.namespace = _NAMESPACE

    def create(self, submission: Submission, *, dry_run: bool = False) -> LocalHandle:
        """Start the job, as one of the same name that has finished, or with its checkpoints.

        Raises:
            Invalid: the job is invalid.
            AlreadyExists: a job of this name is running.
            NotPossible: the trainer, which unpacks code, is not installed here.
        """
        placed = submission.in_namespace(_NAMESPACE)
        check(placed.job)
        if placed.code is not None and importlib.util.find_spec("tfdist_trainer") is None:
            raise NotPossible("the code of a job is unpacked by the trainer, which is not installed here: "
                              "pip install tfdist-trainer")  # fmt: skip
        run = LocalRun(self.folder / placed.job["metadata"]["name"])
        if run.is_alive():
            raise AlreadyExists(f'job "{run.name}" is running in {run.path}: wait for its end, or cancel it')
        config_maps = [*placed.config_maps, *([placed.code] if placed.code else [])]
        job = placed.job | {"metadata": placed.job["metadata"] | _new_metadata()}
        if not dry_run:
            self._make_folder()
            run.start(job, config_maps)
        return LocalHandle(self, Job(job), run)

    def get(self, name: str) -> Job:
        """Return a job.

        Raises:
            NotFound: there is none of this name.
        """
        manifest = self._run(name).manifest()
        if manifest is None:
            raise NotFound(f'job "{name}" not found in {self.folder}')
        return Job(manifest)

    def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Job]:  # noqa: ARG002
        """Return the jobs of the folder by name; `selector` is of their labels, such as `team=vision`."""
        selected_labels = dict(part.strip().partition("=")[::2] for part in (selector or "").split(",") if part.strip())
        manifests = (LocalRun(path).manifest() for path in sorted(self.folder.glob("*")) if path.is_dir())
        labels_of = [(manifest, manifest["metadata"].get("labels") or {}) for manifest in manifests if manifest]
        return [
            Job(manifest)
            for manifest, labels in labels_of
            if all(labels.get(k) == v for k, v in selected_labels.items())
        ]

    def watch(self, name: str, *, seconds: float | None = None) -> Iterator[Job]:
        """Yield a job, and again after each change.

        Raises:
            NotFound: there is no such job, or it has been deleted.
        """
        last: Job | None = None
        end = float("inf") if seconds is None else time.monotonic() + seconds
        while True:
            job = self.get(name)
            if job != last:
                yield (last := job)
            if time.monotonic() >= end:
                return
            self.pause(_POLL_SECONDS)

    def handle(self, job: Job) -> LocalHandle:
        """Return the handle of a job that has been read."""
        return LocalHandle(self, job, self._run(job.name))

    def pause(self, seconds: float) -> None:
        """Wait between two reads of a file."""
        time.sleep(seconds)

    def logs(
        self, name: str, role: str | None = None, index: int | None = None, *, follow: bool = False
    ) -> Iterator[LogLine]:
        """Yield the lines of the replicas' logs, as those of the handle.

        Args:
            name: of the job.
            role: such as `worker`; by default all.
            index: of the replica in its role; by default all.
            follow: go on as lines are written, until the job has ended.

        Raises:
            NotFound: there is no such job, or it has been deleted.
        """
        return self.attach(name).logs(role, index, follow=follow)

    def delete(self, name: str, *, uid: str | None = None) -> None:
        """Stop a job within its grace period, and remove it from the list; its logs and volumes stay.

        Raises:
            NotFound: there is no such job.
        """
        job = self.get(name)
        if uid is not None and job.uid != uid:
            raise NotFound(f"job {name} was deleted; another one has its name now")
        self._run(name).remove()

    def cancel(self, name: str) -> None:
        """Stop a job, as `delete`.

        Raises:
            NotFound: there is no such job.
        """
        self.delete(name)

    def suspend(self, name: str) -> Job:
        """Have a job save a checkpoint and stop, as Ctrl-C in `tfdist run --local`; warnings as those of `Client`.

        Raises:
            NotPossible: the job has finished.
        """
        self._unfinished(name, "suspended")
        self._run(name).stop()
        return with_warning(self.get(name))

    def resume(self, name: str) -> Job:
        """Run a suspended job again, from its last checkpoint.

        Raises:
            NotPossible: the job has finished.
        """
        job = self._unfinished(name, "resumed")
        if job.phase is JobPhase.SUSPENDED:
            self._run(name).start_again()
        return self.get(name)

    def pods(self, name: str) -> builtins.list[dict[str, Any]]:  # noqa: ARG002
        """Return nothing: the replicas are processes."""
        return []

    def restart(self, name: str) -> NoReturn:
        """Raise an error: suspend the job and resume it."""
        raise NotPossible(f'job "{name}" runs on this machine, where no restart is requested: suspend it and resume it')

    def scale(self, name: str, workers: int) -> NoReturn:
        """Raise an error: the number of workers of a local run does not change."""
        raise NotPossible(f'job "{name}" runs on this machine: cancel it and submit it with {workers} workers')

    def patch(self, name: str, change: Mapping[str, Any]) -> NoReturn:  # noqa: ARG002
        """Raise an error: a local run does not change."""
        raise NotPossible(f'job "{name}" runs on this machine, where it cannot be changed: cancel and submit it')

    @property
    def sweeps(self) -> NoReturn:
        """Raise an error: the controller of a cluster runs sweeps."""
        raise NotPossible("sweeps need a cluster: tfdist.Client().sweeps")

    def events(self, name: str) -> builtins.list[Event]:
        """Raise an error: there are no events without a cluster."""
        raise NotPossible(f"there are no events without a cluster; the messages are in {self._run(name).log_path}")

    def follow_events(self, name: str) -> Iterator[Event]:
        """Raise an error: there are no events without a cluster."""
        return iter(self.events(name))

    def in_namespace(self, namespace: str) -> Client:
        """Raise an error: there are no namespaces without a cluster."""
        raise NotPossible(f"there is no namespace {namespace} on this machine")

    def similar(self, name: str) -> str | None:
        """Return the most similar name of a job; None if none is similar."""
        return suggest(name, (job.name for job in self.list()))

    def _run(self, name: str) -> LocalRun:
        if not name or Path(name).name != name:
            raise NotFound(f'job "{name}" not found in {self.folder}')
        return LocalRun(self.folder / name)

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        ignore_file = self.folder / ".gitignore"
        if not ignore_file.exists():
            ignore_file.write_text("*\n", encoding="utf-8")


def _new_metadata() -> dict[str, Any]:
    """Return the metadata that the API server would add."""
    return {
        "uid": str(uuid.uuid4()),
        "creationTimestamp": rfc3339(datetime.now(UTC)),
        "generation": 1,
        "resourceVersion": "1",
    }
