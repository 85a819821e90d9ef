"""Commands that show what the jobs of a cluster use: `top`, `cost`."""

import pathlib
from typing import Annotated, Final, Literal

import typer

from tfdist.cli import completion
from tfdist.cli.cluster import connect
from tfdist.cli.options import Context, Kubeconfig, Namespace

usage: Final = typer.Typer()

OptionalName = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB", help="Name of a job; by default all of the namespace.", autocompletion=completion.job_names
    ),
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Jobs of all namespaces.")]


@usage.command()
def top(
    name: OptionalName = None,
    *,
    all_namespaces: AllNamespaces = False,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Redraw the table every 2 s, until Ctrl-C.")] = False,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show what jobs use and do now: GPUs and requested CPUs, step, throughput, step time.

    Jobs that have ended are left out, unless they are named. Most GPUs first.

    Exit code: 0, also without any job; 2 there is none of this name, or a request failed; 130 after Ctrl-C.
    """
    from tfdist.cli.commands import top as command  # noqa: PLC0415  imported on demand

    client = connect(namespace, context, kubeconfig)
    return command.execute(client, name, all_namespaces=all_namespaces, watch=watch)


@usage.command()
def cost(
    name: OptionalName = None,
    *,
    all_namespaces: AllNamespaces = False,
    prices: Annotated[
        pathlib.Path | None,
        typer.Option(metavar="FILE", help="YAML with gpuHour, cpuHour and currency.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Leave out jobs that ended earlier: 12h, 7d.", show_default=False),
    ] = None,
    output: Annotated[
        Literal["json"] | None, typer.Option("-o", "--output", help="By default a table.", show_default=False)
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show the GPU and CPU hours of jobs up to now, and how much of their time was productive or lost.

    Productive is the share of steps that were kept, lost that of steps that were repeated after a restart. The rest is
    the start, checkpoints and evaluation.

    Exit code: 0, also without any job; 2 there is none of this name, a wrong price, or a request failed.
    """
    from tfdist.cli.commands import cost as command  # noqa: PLC0415  imported on demand

    wanted = command.Request(name, all_namespaces=all_namespaces, prices=prices, since=since, output=output)
    wanted.check()
    return command.execute(connect(namespace, context, kubeconfig), wanted)
