"""The command that writes a first manifest: `init`."""

from pathlib import Path
from typing import Annotated, Final

import typer

init: Final = typer.Typer()


@init.command("init")
def _init(
    *,
    program: Annotated[str | None, typer.Option(metavar="NAME", help="Program of the bundled trainer.")] = None,
    script: Annotated[str | None, typer.Option(metavar="FILE", help="Python script, instead of a program.")] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the job.")] = None,
    data: Annotated[str | None, typer.Option(metavar="PATTERN", help="Training files of a program.")] = None,
    eval_data: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Files to evaluate a program on after training, or none.")
    ] = None,
    data_claim: Annotated[str | None, typer.Option(metavar="CLAIM", help="Claim with the data, or none.")] = None,
    workers: Annotated[str | None, typer.Option(metavar="N", help="Number of workers.")] = None,
    gpus: Annotated[str | None, typer.Option(metavar="N", help="GPUs of each worker.")] = None,
    checkpoint_claim: Annotated[
        str | None, typer.Option(metavar="CLAIM", help="Claim for checkpoints, or none.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="PATH", help="Schema for editors, as a URL or relative to the manifest.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Manifest to write.")] = Path(
        "job.yaml"
    ),
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask: use the defaults.")] = False,
) -> int:
    """Write a first manifest, by a few questions.

    Each question is also an option. The manifest is valid, has comments, and never replaces a file.

    Exit code: 0 written, 1 the job would be invalid, 2 the file exists, or an answer is missing or wrong.
    """
    from tfdist.cli.commands import init as command  # noqa: PLC0415  imported on demand

    options = {
        "program": program,
        "script": script,
        "name": name,
        "workers": workers,
        "gpus": gpus,
        "data": data,
        "data-claim": data_claim,
        "checkpoint-claim": checkpoint_claim,
        "eval-data": eval_data,
    }
    given = {key: value for key, value in options.items() if value is not None}
    return command.execute(output, given, schema=schema, yes=yes)
