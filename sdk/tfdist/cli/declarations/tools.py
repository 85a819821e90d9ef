"""Commands that connect to a job's pods, and those for trouble."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from tfdist.cli import completion
from tfdist.cli.cluster import connect
from tfdist.cli.command_line import COMMAND, WithCommand
from tfdist.cli.options import Context, JobName, Kubeconfig, Namespace

tools: Final = typer.Typer()


@tools.command("port-forward")
def port_forward(
    name: JobName,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[ROLE-INDEX] [LOCAL:]PORT",
            help="A replica, such as worker-1, then ports.",
            autocompletion=completion.replicas,
        ),
    ],
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Forward ports of this machine to a replica, until Ctrl-C.

    8790 is the same port on both sides, 9000:8790 another one here, :8790 a free one, which is printed. Without
    ROLE-INDEX it is the replica that leads. A replica that is restarted is found again.

    Exit code: 0 after Ctrl-C, 2 a request failed or a port is in use.
    """
    from tfdist.cli.commands import port_forward as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, words)


@tools.command()
def tensorboard(
    name: JobName,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Local port; 0 for a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Open the TensorBoard of a job, which has `spec.tensorBoard`, until Ctrl-C.

    Exit code: 0 after Ctrl-C, 2 the job has no TensorBoard or a request failed, 130 interrupted before it answered.
    """
    from tfdist.cli.commands import tensorboard as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, port=port, open_browser=not no_open)


@tools.command(cls=WithCommand)
def shell(
    ctx: typer.Context,
    name: JobName,
    replica: Annotated[
        str | None,
        typer.Argument(
            metavar="ROLE-INDEX",
            help="Such as worker-1; by default the replica that leads.",
            show_default=False,
            autocompletion=completion.replicas,
        ),
    ] = None,
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Open a shell, or run the command after `--`, in the container of a replica.

    Without ROLE-INDEX it is the replica that leads. Without a terminal the command reads standard input and its output
    is copied, so it can be part of a pipe.

    Exit code: 0 or that of the command, 2 a request failed or the replica does not run.
    """
    from tfdist.cli.commands import shell as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, replica, ctx.meta[COMMAND])


@tools.command()
def stacks(
    name: JobName,
    replica: Annotated[
        str | None,
        typer.Argument(
            metavar="ROLE-INDEX",
            help="Such as worker-1; by default all replicas.",
            show_default=False,
            autocompletion=completion.replicas,
        ),
    ] = None,
    *,
    wait: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="How long to wait for a replica.")] = 10.0,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Print the Python stacks of the replicas now.

    Exit code: 0 stacks were printed, 1 no replica gave any, 2 a request failed.
    """
    from tfdist.cli.commands import stacks as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, replica, wait=wait)


@tools.command()
def doctor(
    name: Annotated[
        str | None, typer.Argument(metavar="JOB", help="Also check this job.", autocompletion=completion.job_names)
    ] = None,
    *,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Output format.")] = "text",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Check the cluster, your rights and the namespace before a job is submitted, and a job that has problems.

    Each line is a check with its result, ok, warning, problem, or unknown if you may not read what it needs.

    Exit code: 0 no problems, 1 a problem was found, 2 a request failed.
    """
    from tfdist.cli.commands import doctor as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, output=output)


@tools.command()
def report(
    name: JobName,
    *,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.tar.gz", help="By default tfdist-report-JOB-TIME.tar.gz."),
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Write one file for a bug report: the job, its pods, events and ends of logs, versions, and the doctor's result.

    Values that may be secret are masked; `contents.txt` in it lists them, and what could not be read.

    Exit code: 0 written, 2 a request failed or the file exists.
    """
    from tfdist.cli.commands import report as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, output)
