"""Commands for the output of a job: `logs`, `attach`."""

from typing import Annotated, Final

import typer

from tfdist.cli import completion
from tfdist.cli.cluster import connect
from tfdist.cli.options import Context, JobName, Kubeconfig, Namespace

logs: Final = typer.Typer()

AllReplicas = Annotated[bool, typer.Option("--all", help="All replicas of a job that has more than 16.")]


@logs.command("logs")
def print_logs(
    name: JobName,
    replica: Annotated[
        str | None,
        typer.Argument(
            metavar="ROLE-INDEX",
            help="Such as worker-0; by default all.",
            show_default=False,
            autocompletion=completion.replicas,
        ),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the job has ended.")] = False,
    since: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only lines of the last 90s, 10m or 1h.")
    ] = None,
    tail: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the last N lines of each replica.")] = None,
    attempt: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Of an attempt whose pods are kept; by default the latest.")
    ] = None,
    previous: Annotated[bool, typer.Option("-p", "--previous", help="Of the attempt before the latest.")] = False,
    grep: Annotated[str | None, typer.Option(metavar="REGEX", help="Only lines that match.")] = None,
    all_replicas: AllReplicas = False,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Begin lines with their times.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Print the logs of the replicas of a job.

    Each line begins with the name of its replica. Lines of several replicas are in order of time, with --follow in the
    order in which they arrive. A replica that could not start has the log of its init container, as worker-0/fetch.

    Exit code: 0 printed, 1 there is no log, 2 a request failed.
    """
    from tfdist.cli.commands import logs as command  # noqa: PLC0415  imported on demand

    wanted = command.Wanted(
        replica=replica, attempt=attempt, previous=previous, since=since, tail=tail, all_replicas=all_replicas
    )
    client = connect(namespace, context, kubeconfig)
    return command.execute(client, name, wanted, follow=follow, grep=grep, timestamps=timestamps)


@logs.command()
def attach(
    name: JobName,
    *,
    tail: Annotated[int, typer.Option(metavar="N", min=1, help="Begin with the last N lines of each replica.")] = 10,
    all_replicas: AllReplicas = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Follow a job: its logs, phases and progress, and its result at the end.

    Ctrl-C detaches from the job, which goes on.

    Exit code: 0 succeeded, 124 a deadline was exceeded, 130 detached, 2 a request failed; otherwise that of the replica
    that failed the job.
    """
    from tfdist.cli.commands import attach as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, tail=tail, all_replicas=all_replicas)
