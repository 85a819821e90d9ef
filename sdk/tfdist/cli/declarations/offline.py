"""Commands that need no cluster: `validate`, `render`, `convert`.

A command imports its implementation (`tfdist.cli.commands`) when it runs, so that help and completion import neither
the models nor a YAML parser.
"""

from typing import Annotated, Final, Literal

import typer

offline: Final = typer.Typer()

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="YAML or JSON; a folder; - for standard input.")]
File = Annotated[str, typer.Argument(metavar="FILE", help="YAML or JSON; a folder; - for standard input.")]
ManifestFormat = Annotated[Literal["yaml", "json"], typer.Option("-o", "--output", help="Output format.")]


@offline.command()
def validate(
    files: Files,
    *,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only: no warnings, no summary.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Output format.")] = "text",
) -> int:
    """Check TFDistJobs offline.

    Prints a line FILE:LINE: PATH: MESSAGE for each problem, and a summary on standard error. A line with `warning:`
    concerns a valid job and does not change the exit code. Documents of other kinds are skipped.

    Exit code: 0 all valid, 1 problems found, 2 unreadable file.
    """
    from tfdist.cli.commands import validate as command  # noqa: PLC0415  imported on demand

    return command.execute(files, quiet=quiet, in_json=output == "json")


@offline.command()
def render(
    file: File,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", metavar="NAMESPACE", help="Namespace of jobs without one.")
    ] = "default",
    image: Annotated[
        str, typer.Option(metavar="IMAGE", help="Trainer image of jobs without an image.")
    ] = "tfdist/trainer",
    output: ManifestFormat = "yaml",
) -> int:
    """Print every object that the controller would create.

    The objects are in the order of their creation. Nothing is sent to a cluster.

    Exit code: 0 rendered, 1 a job is invalid or there is none, 2 unreadable file.
    """
    from tfdist.cli.commands import render as command  # noqa: PLC0415  imported on demand

    return command.execute(file, namespace=namespace, image=image, in_json=output == "json")


@offline.command()
def convert(files: Files, output: ManifestFormat = "yaml") -> int:
    """Convert TFJobs (kubeflow.org/v1) to TFDistJobs, and Katib's Experiments of TFJobs to TFDistSweeps.

    Prints all documents in order: those converted, with notes as comments, all others unchanged. The notes are also
    written to standard error as FILE:LINE: PATH: MESSAGE, with lines and paths of the TFJob.

    Exit code: 0 converted, 1 a TFJob cannot be converted or its result is invalid, 2 unreadable file.
    """
    from tfdist.cli.commands import convert as command  # noqa: PLC0415  imported on demand

    return command.execute(files, in_json=output == "json")
