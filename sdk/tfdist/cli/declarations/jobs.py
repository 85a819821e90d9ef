"""Commands that show the jobs of a cluster: `list`, `get`, `describe`, `events`, `wait`."""

from typing import Annotated, Final, Literal

import typer

from tfdist.cli import completion
from tfdist.cli.cluster import connect
from tfdist.cli.options import Context, JobName, Kubeconfig, Namespace

jobs: Final = typer.Typer()

Output = Annotated[
    Literal["wide", "json", "yaml", "name"] | None,
    typer.Option("-o", "--output", help="Output format; by default a table.", show_default=False),
]


@jobs.command("list")
def list_(
    *,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Jobs of all namespaces.")] = False,
    selector: Annotated[
        str | None,
        typer.Option("-l", "--selector", metavar="SELECTOR", help="Labels, such as team=vision.", show_default=False),
    ] = None,
    output: Output = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """List jobs.

    On a terminal each job is one line, with long cells cut; elsewhere nothing is cut.

    Exit code: 0, also without any job; 2 if the request failed.
    """
    from tfdist.cli.commands import list as command  # noqa: PLC0415  imported on demand

    client = connect(namespace, context, kubeconfig)
    return command.execute(client, all_namespaces=all_namespaces, selector=selector, output=output)


@jobs.command()
def get(
    name: JobName,
    *,
    output: Output = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show one job.

    `json` and `yaml` print it as the cluster stores it, without `managedFields`.

    Exit code: 0 shown, 2 there is none of this name, or the request failed.
    """
    from tfdist.cli.commands import get as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, output=output)


@jobs.command()
def describe(
    name: JobName,
    *,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show all about a job.

    Replicas, progress, results, restarts, the last failure with its root cause and the remedy, conditions, and the last
    events of the job and its pods.

    Exit code: 0 shown, 2 there is none of this name, or a request failed.
    """
    from tfdist.cli.commands import describe as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name)


@jobs.command()
def events(
    name: JobName,
    *,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new events until the job is deleted, or Ctrl-C.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show the events of a job and its pods.

    Newest last. A cluster keeps events for an hour by default.

    Exit code: 0, also without any event; 2 there is no such job, or a request failed; 130 after Ctrl-C.
    """
    from tfdist.cli.commands import events as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, follow=follow)


@jobs.command()
def wait(
    name: JobName,
    *,
    phase: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="PHASE",
            help="Phase to wait for; by default the end of the job.",
            autocompletion=completion.phases,
        ),
    ] = "",
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as 90s, 10m or 1h; by default without end.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Wait until a job has ended, or has a phase.

    Exit code: that of the job, as of `tfdist run`; 0 if the job has the phase; 124 after the timeout; 2 if a request
    failed.
    """
    from tfdist.cli.commands import wait as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name, phase=phase, timeout=timeout)
