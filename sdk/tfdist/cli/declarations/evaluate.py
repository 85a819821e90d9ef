"""The command that starts a job for another one: `evaluate`."""

from typing import Annotated, Final

import typer

from tfdist.cli import completion
from tfdist.cli.cluster import connect
from tfdist.cli.options import Context, DryRun, Kubeconfig, Namespace

evaluate: Final = typer.Typer()


@evaluate.command("evaluate")
def _evaluate(
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
            help="Checkpoint of the job: of a step, the newest (default), or the best evaluated.",
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
            help="Name of the new job; by default NAME-evaluation-XXXXX or NAME-ensemble-XXXXX.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Workers that evaluate; by default as many as trained.")
    ] = None,
    dry_run: DryRun = None,
    follow: Annotated[bool, typer.Option("--follow", help="Follow the new job to its end.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Evaluate a checkpoint of a job, or an ensemble, by a new job.

    The new job has the program, configuration, image and volumes of job NAME, and does not train. Its result is in its
    status, and next to the checkpoint. Job NAME may still run.

    With --ensemble, NAME is a sweep, and the new job evaluates the mean of the predictions of its best trials.

    Exit code: 0 created, 2 NAME cannot be evaluated or a request failed; with --follow that of the new job.
    """
    from tfdist.cli.commands import evaluate as command  # noqa: PLC0415  imported on demand

    return command.execute(
        connect(namespace, context, kubeconfig),
        name,
        checkpoint=checkpoint,
        ensemble=ensemble,
        new_name=new_name,
        workers=workers,
        dry_run=dry_run,
        follow=follow,
    )
