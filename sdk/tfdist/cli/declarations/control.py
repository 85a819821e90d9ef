"""Commands that control the jobs of a cluster: `suspend`, `resume`, `restart`, `scale`, `delete`."""

from typing import Annotated, Final

import typer

from tfdist.cli.cluster import connect
from tfdist.cli.completion import job_names
from tfdist.cli.options import Context, JobName, Kubeconfig, Namespace

control: Final = typer.Typer()

JobNames = Annotated[list[str], typer.Argument(metavar="JOB", help="Names of the jobs.", autocompletion=job_names)]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the effect.")]
Timeout = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Of the wait, such as 90s, 10m or 1h; by default without end."),
]


@control.command()
def suspend(
    names: JobNames,
    *,
    wait: Wait = False,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Suspend jobs.

    Their pods save a checkpoint and end; `resume` continues from it. With `--wait` the command ends when the pods have
    ended.

    Exit code: 0 suspended, 1 a job ended instead, 2 a request failed, 124 after the timeout.
    """
    from tfdist.cli.commands import control as command  # noqa: PLC0415  imported on demand

    client = connect(namespace, context, kubeconfig)
    return command.execute(client, names, "suspend", wait=wait, timeout=timeout)


@control.command()
def resume(
    names: JobNames,
    *,
    wait: Wait = False,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Resume suspended jobs from their last checkpoints.

    With `--wait` the command ends when all replicas run.

    Exit code: 0 resumed, 1 a job failed instead, 2 a request failed, 124 after the timeout.
    """
    from tfdist.cli.commands import control as command  # noqa: PLC0415  imported on demand

    client = connect(namespace, context, kubeconfig)
    return command.execute(client, names, "resume", wait=wait, timeout=timeout)


@control.command()
def restart(
    names: JobNames,
    *,
    wait: Wait = False,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Restart the gangs of jobs.

    Their pods save a checkpoint and end, and start again with the newest specification. The restart does not count
    against `runPolicy.backoffLimit`. With `--wait` the command ends when all replicas run again.

    Exit code: 0 restarted, 1 a job failed instead, 2 a request failed, 124 after the timeout.
    """
    from tfdist.cli.commands import control as command  # noqa: PLC0415  imported on demand

    client = connect(namespace, context, kubeconfig)
    return command.execute(client, names, "restart", wait=wait, timeout=timeout)


@control.command()
def scale(
    name: JobName,
    *,
    workers: Annotated[int, typer.Option(metavar="N", min=0, help="Number of workers.")],
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Set the number of workers of a job that is suspended or has not started.

    Exit code: 0 scaled, 2 the job is running, or the request failed.
    """
    from tfdist.cli.commands import control as command  # noqa: PLC0415  imported on demand

    return command.scale(connect(namespace, context, kubeconfig), name, workers)


@control.command()
def delete(
    names: JobNames,
    *,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the jobs and their pods are gone.")] = True,
    timeout: Timeout = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Delete jobs.

    Their pods end within their grace periods. Checkpoints and exported models on volumes are kept.

    Exit code: 0 deleted, 2 a request failed, 124 after the timeout.
    """
    from tfdist.cli.commands import control as command  # noqa: PLC0415  imported on demand

    return command.delete(connect(namespace, context, kubeconfig), names, wait=wait, timeout=timeout)
