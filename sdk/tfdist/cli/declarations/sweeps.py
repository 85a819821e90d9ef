"""The commands of the group `tfdist sweep`."""

from typing import Annotated, Final, Literal

import typer

from tfdist.cli import completion
from tfdist.cli.cluster import connect
from tfdist.cli.options import Context, DryRun, Kubeconfig, Namespace

sweeps: Final = typer.Typer(rich_markup_mode=None)

File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; a folder; - for standard input.")]
SweepName = Annotated[
    str, typer.Argument(metavar="SWEEP", help="Name of the sweep.", autocompletion=completion.sweep_names)
]
SweepNames = Annotated[
    list[str], typer.Argument(metavar="SWEEP", help="Names of the sweeps.", autocompletion=completion.sweep_names)
]
Output = Annotated[
    Literal["wide", "json", "yaml", "name"] | None,
    typer.Option("-o", "--output", help="Output format; by default a table.", show_default=False),
]


@sweeps.command()
def submit(
    file: File,
    *,
    dry_run: DryRun = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Create a sweep from a manifest.

    The sweep is validated first, with the jobs of its trials, and created with the ConfigMaps of its file, or nothing
    is.

    Exit code: 0 created, 1 the sweep is invalid, 2 a request failed or a file cannot be read.
    """
    from tfdist.cli.commands import sweep_submit as command  # noqa: PLC0415  imported on demand

    return command.execute(file, namespace, lambda: connect(namespace, context, kubeconfig), dry_run=dry_run)


@sweeps.command()
def run(file: File, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None) -> int:
    """Create a sweep, and follow it to its end: `submit`, then `attach`.

    Exit code: 0 the sweep succeeded, otherwise as of `attach`; 1 for an invalid manifest, 2 for an unreadable file.
    """
    from tfdist.cli.commands import sweep_submit as command  # noqa: PLC0415  imported on demand

    return command.execute(file, namespace, lambda: connect(namespace, context, kubeconfig), follow=True)


@sweeps.command()
def attach(
    name: SweepName, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> int:
    """Follow a sweep to its end.

    Prints its phase, the best trial and the number of trials after each change. Ctrl-C ends the command, and the sweep
    goes on.

    Exit code: 0 the sweep succeeded, 1 it failed or is invalid, 124 after its deadline, 2 a request failed, 130 after
    Ctrl-C.
    """
    from tfdist.cli.commands import sweep_attach as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), name)


@sweeps.command()
def wait(
    name: SweepName,
    *,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as 90s, 10m or 1h; by default without end.")
    ] = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Wait until a sweep has ended.

    Exit code: 0 the sweep succeeded, otherwise as of `attach`; 124 after the timeout, too.
    """
    from tfdist.cli.commands import sweep_attach as command  # noqa: PLC0415  imported on demand

    return command.wait(connect(namespace, context, kubeconfig), name, timeout=timeout)


@sweeps.command("list")
def list_(
    *,
    all_namespaces: Annotated[bool, typer.Option("-A", "--all-namespaces", help="Sweeps of all namespaces.")] = False,
    selector: Annotated[
        str | None,
        typer.Option("-l", "--selector", metavar="SELECTOR", help="Labels, such as team=vision.", show_default=False),
    ] = None,
    output: Output = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """List sweeps.

    Exit code: 0, also without any sweep; 2 if the request failed.
    """
    from tfdist.cli.commands import sweep_show as command  # noqa: PLC0415  imported on demand

    client = connect(namespace, context, kubeconfig)
    return command.list_sweeps(client, all_namespaces=all_namespaces, selector=selector, output=output)


@sweeps.command()
def get(
    name: SweepName,
    *,
    output: Output = None,
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show one sweep.

    `json` and `yaml` print it as the cluster stores it, without `managedFields`.

    Exit code: 0 shown, 2 there is none of this name, or the request failed.
    """
    from tfdist.cli.commands import sweep_show as command  # noqa: PLC0415  imported on demand

    return command.get(connect(namespace, context, kubeconfig), name, output=output)


@sweeps.command()
def describe(
    name: SweepName, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> int:
    """Show all about a sweep: phase, metric, search, trials, the best of them, and conditions.

    Exit code: 0 shown, 2 there is none of this name, or the request failed.
    """
    from tfdist.cli.commands import sweep_show as command  # noqa: PLC0415  imported on demand

    return command.describe(connect(namespace, context, kubeconfig), name)


@sweeps.command()
def results(
    name: SweepName,
    *,
    output: Annotated[
        Literal["csv", "json", "yaml"] | None,
        typer.Option("-o", "--output", help="Output format; by default a table.", show_default=False),
    ] = None,
    order: Annotated[
        Literal["best", "number"], typer.Option("--order", help="`best`: the best first; `number`: by number.")
    ] = "best",
    namespace: Namespace = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> int:
    """Show the trials of a sweep with their parameters and values.

    The best first, then those without a value, then those that failed. Results remain when jobs of trials are deleted.

    Exit code: 0 shown, 2 there is no such sweep, or the request failed.
    """
    from tfdist.cli.commands import sweep_results as command  # noqa: PLC0415  imported on demand

    client = connect(namespace, context, kubeconfig)
    return command.execute(client, name, output=output, best_first=order == "best")


@sweeps.command()
def suspend(
    names: SweepNames, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> int:
    """Suspend sweeps.

    Their jobs save checkpoints and end, and no new ones are created; `resume` continues from there.

    Exit code: 0 suspended, 2 a request failed.
    """
    from tfdist.cli.commands import sweep_control as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), names, "suspend")


@sweeps.command()
def resume(
    names: SweepNames, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> int:
    """Resume suspended sweeps.

    Exit code: 0 resumed, 2 a request failed.
    """
    from tfdist.cli.commands import sweep_control as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), names, "resume")


@sweeps.command()
def delete(
    names: SweepNames, *, namespace: Namespace = None, context: Context = None, kubeconfig: Kubeconfig = None
) -> int:
    """Delete sweeps with the jobs of their trials.

    The results are deleted with them. Checkpoints and exported models on volumes are kept.

    Exit code: 0 deleted, 2 a request failed.
    """
    from tfdist.cli.commands import sweep_control as command  # noqa: PLC0415  imported on demand

    return command.execute(connect(namespace, context, kubeconfig), names, "delete")
