"""`tfdist evaluate NAME`: evaluates a checkpoint of a job, or an ensemble, with a new job of task `Evaluate`."""

import base64
from typing import Annotated, Final
from urllib.parse import quote

import typer

from tfdist.cli import completion
from tfdist.cli.command_line import command
from tfdist.cli.commands.submit import create_prepared
from tfdist.cli.connection import ClusterOptions, attach_job, attach_sweep
from tfdist.cli.errors import CommandError
from tfdist.cli.options import DryRun
from tfdist.client.client import Client
from tfdist.client.code_archive import CodeArchive
from tfdist.client.errors import NotFound
from tfdist.client.evaluation_job import LATEST, ensemble_job, evaluation_job
from tfdist.client.job import Job
from tfdist.client.submission import check, prepare
from tfdist.render.source import ARCHIVE_KEY, part_names

_CONTENT: Final = "binaryData"


@command
def evaluate(
    connection: ClusterOptions,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of the job, or with --ensemble of the sweep.",
            autocompletion=completion.evaluated,
        ),
    ],
    *,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="STEP|latest|best",
            help="Checkpoint of the job: a step, the newest (default), or the best one by evaluation.",
            show_default=False,
        ),
    ] = None,
    ensemble: Annotated[
        bool, typer.Option("--ensemble", help="Evaluate the best trials of sweep NAME as one model.")
    ] = False,
    new_name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="NAME",
            help="Name of the new job; default: NAME-evaluation-XXXXX or NAME-ensemble-XXXXX.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of workers; default: as many as trained.")
    ] = None,
    dry_run: DryRun = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow the new job to its end.")] = False,
) -> int:
    """Evaluate a checkpoint of a job, or an ensemble, with a new job.

    The new job has the program, configuration, image and volumes of job NAME, and does not train. It writes the result
    to its status and next to the checkpoint. Job NAME may still be running.

    With --ensemble, NAME is a sweep, and the new job evaluates the mean of the predictions of its best trials.

    Exits 0 when the new job is created, or 2 if NAME cannot be evaluated or a request fails; with --follow, with the
    exit code of the new job.
    """
    client = connection.client()
    if ensemble:
        if checkpoint is not None:
            raise CommandError("--checkpoint is for jobs; an ensemble uses the checkpoints in status.best of the sweep")
        manifest = ensemble_job(attach_sweep(client, name).sweep, name=new_name, workers=workers)
        code = None
    else:
        job = attach_job(client, name).job
        manifest = evaluation_job(job, checkpoint=checkpoint or LATEST, name=new_name, workers=workers)
        code = _code(client, job)
    submission = prepare(manifest, client.namespace, code)
    check(submission.job)
    return create_prepared(submission, lambda: client, dry_run=dry_run, follow=follow)


def _code(client: Client, job: Job) -> CodeArchive | None:
    """Return the code that was submitted with a job: it is deleted with that job, so the new one needs its own."""
    source = (job.spec.get("training") or {}).get("source") or {}
    archive = source.get("archive")
    if archive is None:
        return None
    return CodeArchive(b"".join(_part(client, job, name) for name in part_names(archive)), ())


def _part(client: Client, job: Job, name: str) -> bytes:
    """Return the content of a ConfigMap of the code."""
    path = f"/api/v1/namespaces/{quote(client.namespace, safe='')}/configmaps/{quote(name, safe='')}"
    try:
        return base64.b64decode((client.api.request("GET", path).get(_CONTENT) or {})[ARCHIVE_KEY])
    except (NotFound, KeyError):
        raise CommandError(
            f'the code of job "{job.name}" is gone: configmap "{name}" has no {ARCHIVE_KEY}; submit a job of '
            "task: Evaluate with --code"
        ) from None
