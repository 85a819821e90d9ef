"""The command that starts a job for another one: `evaluate`."""

from typing import Annotated, Final, Literal

import typer

from tfdist.cli.cluster import connect
from tfdist.cli.options import Context, JobName, Kubeconfig, Namespace

evaluate: Final = typer.Typer()


@evaluate.command("evaluate")
def _evaluate(
    name: JobName,
    *,
    checkpoint: Annotated[
        str, typer.Option(metavar="STEP|latest|best", help="Checkpoint: of a step, the newest, or the best evaluated.")
    ] = "latest",
    new_name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the new job; by default JOB-evaluation-XXXXX.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Workers that evaluate; by default as many as trained.")
    ] = None,
    dry_run: Annotated[
        Literal["client", "server"] | None,
        typer.Option(help="`client` prints the objects; `server` has the API server check them.", show_default=False),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow the new job to its end.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Evaluate a checkpoint of a job, by a new job.

    The new job has the program, configuration, image and volumes of JOB, and does not train. Its result is in its
    status, and next to the checkpoint. JOB may still run.

    Exit code: 0 created, 2 JOB cannot be evaluated or a request failed; with --follow that of the new job.
    """
    from tfdist.cli.commands import evaluate as command  # noqa: PLC0415  imported on demand

    return command.execute(
        connect(namespace, context, kubeconfig),
        name,
        checkpoint=checkpoint,
        new_name=new_name,
        workers=workers,
        dry_run=dry_run,
        follow=follow,
    )
