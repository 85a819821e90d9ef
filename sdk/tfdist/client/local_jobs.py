"""The jobs that are processes of this machine.

Each job is run by a process of its own (`tfdist.local.background`), which goes on when this one ends. Its run directory
has the job, its status and its logs, so another client finds it again.
"""

import importlib.util
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

from tfdist.client.api_server import Json
from tfdist.client.errors import AlreadyExists, NotFound, NotPossible
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS
from tfdist.client.local_handle import LocalHandle
from tfdist.client.local_run import LocalRun
from tfdist.client.resources import Resources
from tfdist.client.submission import Submission, check
from tfdist.messages import suggest
from tfdist.timestamps import rfc3339

NAMESPACE: Final = "default"

_POLL_SECONDS: Final = 0.2


class LocalJobs(Resources[Job, LocalHandle]):
    """Runs jobs as processes of this machine; files answer what an API server would."""

    def __init__(self, folder: Path) -> None:
        """Use the run directories below a folder; a job's directory has its name."""
        self.folder, self.namespace, self.kind = folder, NAMESPACE, JOBS

    def create(self, submission: Submission, *, dry_run: bool = False) -> LocalHandle:
        """Start the job; if a job of this name has finished, again, from its checkpoints.

        Raises:
            Invalid: the job is invalid.
            AlreadyExists: a job of this name is running.
            CodeError: the code cannot be uploaded.
            NotPossible: the trainer, which unpacks code, is not installed here.
        """
        placed = submission.in_namespace(NAMESPACE)
        check(placed.job)
        has_code = bool(placed.code or placed.upload)
        if has_code and importlib.util.find_spec("tfdist_trainer") is None:
            raise NotPossible("the code of a job is unpacked by the trainer, which is not installed here: "
                              "pip install tfdist-trainer")  # fmt: skip
        run = LocalRun(self.folder / placed.job["metadata"]["name"])
        if run.is_alive():
            raise AlreadyExists(f'job "{run.name}" is running in {run.path}: wait for its end, or cancel it')
        config_maps = [*placed.config_maps, *placed.code]
        job = placed.job | {"metadata": placed.job["metadata"] | _new_metadata()}
        if not dry_run:
            if placed.upload is not None:
                placed.upload.run()
            self._make_folder()
            run.start(job, config_maps)
        return self.handle(Job(job))

    def get(self, name: str) -> Job:
        """Return a job.

        Raises:
            NotFound: the folder has no job of this name.
        """
        manifest = self.run(name).manifest()
        if manifest is None:
            raise NotFound(f'job "{name}" not found in {self.folder}')
        return Job(manifest)

    def list(self, *, all_namespaces: bool = False, selector: str | None = None) -> list[Job]:  # noqa: ARG002
        """Return the jobs of the folder by name; they must have the labels in `selector`, such as `team=vision`."""
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
            NotFound: the job does not exist, or has been deleted.
        """
        last: Job | None = None
        end = float("inf") if seconds is None else time.monotonic() + seconds
        while True:
            job = self.get(name)
            if job != last:
                yield (last := job)
            if time.monotonic() >= end:
                return
            time.sleep(_POLL_SECONDS)

    def patch(self, name: str, change: Json) -> NoReturn:  # noqa: ARG002
        """Raise an error: a local run does not change."""
        raise NotPossible(f'job "{name}" runs on this machine, where it cannot be changed: cancel and submit it')

    def delete(self, name: str, *, uid: str | None = None) -> None:
        """Stop a job within its grace period, and remove it from the list; its logs and volumes stay.

        Raises:
            NotFound: the folder has no job of this name.
        """
        job = self.get(name)
        if uid is not None and job.uid != uid:
            raise NotFound(f"job {name} was deleted; another one has its name now")
        self.run(name).remove()

    def similar(self, name: str) -> str | None:
        """Return the most similar name of a job; None if none is similar."""
        return suggest(name, (job.name for job in self.list()))

    def handle(self, stored: Job) -> LocalHandle:
        """Return the handle of a job that has been read."""
        return LocalHandle(self, stored, self.run(stored.name))

    def run(self, name: str) -> LocalRun:
        """Return the run directory of a job.

        Raises:
            NotFound: no job can have this name.
        """
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
