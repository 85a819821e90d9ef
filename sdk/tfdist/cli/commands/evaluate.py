"""`tfdist evaluate NAME`: evaluates a checkpoint of a job, or an ensemble, by a new job of task `Evaluate`."""

import base64
from typing import Final
from urllib.parse import quote

from tfdist.cli import creation
from tfdist.cli.errors import CommandError
from tfdist.cli.find import attach, attach_sweep, without_kind
from tfdist.client.client import Client
from tfdist.client.code_archive import CodeArchive
from tfdist.client.ensemble_job import ensemble_job
from tfdist.client.errors import NotFound
from tfdist.client.evaluation_job import LATEST, evaluation_job
from tfdist.client.job import Job
from tfdist.client.submission import check, prepare
from tfdist.render.source import ARCHIVE_KEY

_CONTENT: Final = "binaryData"


def execute(
    client: Client,
    name: str,
    *,
    checkpoint: str | None,
    ensemble: bool,
    new_name: str | None,
    workers: int | None,
    dry_run: str | None,
    follow: bool,
) -> int:
    """Create the job and return the exit code: 0, or with `follow` that of the new job.

    Args:
        client: in the namespace of the job.
        name: of the job that has trained, or with `ensemble` of the sweep whose best trials are evaluated as one model.
        checkpoint: `latest` (default), `best`, or a step.
        ensemble: whether `name` is that of a sweep.
        new_name: of the new job; by default one that begins with `name`.
        workers: replicas; by default those of the job.
        dry_run: `client` prints the objects, `server` has the API server check them.
        follow: whether to follow the new job to its end.

    Raises:
        ClientError: the job cannot be evaluated, or a request failed.
    """
    if ensemble:
        if checkpoint is not None:
            raise CommandError(
                "--checkpoint is that of a job; an ensemble has the checkpoints in status.best of the sweep"
            )
        manifest = ensemble_job(attach_sweep(client, name).sweep, name=new_name, workers=workers)
        code = None
    else:
        job = attach(client, without_kind(name)).job
        manifest = evaluation_job(job, checkpoint=checkpoint or LATEST, name=new_name, workers=workers)
        code = _code(client, job)
    submission = prepare(manifest, client.namespace, code)
    check(submission.job)
    return creation.create(submission, lambda: client, dry_run=dry_run, follow=follow)


def _code(client: Client, job: Job) -> CodeArchive | None:
    """Return the code that was submitted with a job: it is deleted with that job, so the new one needs its own."""
    source = (job.spec.get("training") or {}).get("source") or {}
    archive_name = (source.get("archive") or {}).get("name")
    if archive_name is None:
        return None
    path = f"/api/v1/namespaces/{quote(client.namespace, safe='')}/configmaps/{quote(archive_name, safe='')}"
    try:
        content = (client.api.request("GET", path).get(_CONTENT) or {})[ARCHIVE_KEY]
    except (NotFound, KeyError):
        raise CommandError(
            f'the code of job "{job.name}" is gone: configmap "{archive_name}" has no {ARCHIVE_KEY}; submit a job of '
            "task: Evaluate with --code"
        ) from None
    return CodeArchive(base64.b64decode(content), ())
