"""`tfdist sweep submit|run|results`: creates a sweep, and shows its trials."""

import csv
import sys
from collections.abc import Sequence
from typing import Annotated, Literal, TextIO

import typer

from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.cli import completion, jobs, manifests
from tfdist.cli.command_line import command
from tfdist.cli.commands import attach
from tfdist.cli.connection import ClusterOptions, attach_sweep, to_copy
from tfdist.cli.documents import Document, DocumentKind
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.findings import findings
from tfdist.cli.jobs import config_map_manifests
from tfdist.cli.kinds import SWEEP, Reference
from tfdist.cli.object_table import PHASE_COLOURS, as_text, cell, write_document
from tfdist.cli.options import DryRun, File
from tfdist.cli.output import has_colour, message, width_of, write_lines
from tfdist.cli.tables import Column, table
from tfdist.client.submission import prepare
from tfdist.client.sweep import Trial, columns, parameter_names, rows
from tfdist.printable import printable


@command
def submit(connection: ClusterOptions, file: File, *, dry_run: DryRun = None) -> int:
    """Create a sweep from a manifest.

    The sweep is validated first, with the jobs of its trials. It is created with the ConfigMaps of its file, or nothing
    is created.

    Exits 0, or 1 if the sweep is invalid, 2 if a request fails or a file cannot be read.
    """
    return _create(connection, file, dry_run=dry_run)


@command
def run(connection: ClusterOptions, file: File) -> int:
    """Create a sweep, and follow it to its end: `submit`, then `attach`.

    Exits as `attach` does, or 1 if the manifest is invalid, 2 if a file cannot be read.
    """
    return _create(connection, file, follow=True)


@command
def results(
    connection: ClusterOptions,
    name: Annotated[
        str, typer.Argument(metavar="SWEEP", help="Name of the sweep.", autocompletion=completion.sweep_names)
    ],
    *,
    output: Annotated[
        Literal["csv", "json", "yaml"] | None,
        typer.Option("-o", "--output", help="Output format; default: a table.", show_default=False),
    ] = None,
    order: Annotated[
        Literal["best", "number"], typer.Option("--order", help="`best`: the best first; `number`: by number.")
    ] = "best",
) -> int:
    """Show the trials of a sweep with their parameters and values.

    The best trial comes first, then trials without a value, then failed ones. Results remain when the jobs of the
    trials are deleted, except for what functions have returned.

    Exits 0, or 2 if the sweep does not exist or the request fails.
    """
    handle = attach_sweep(connection.client(), name)
    trials, sweep = handle.results(best_first=order == "best"), handle.sweep
    if output == "csv":
        write_csv(sys.stdout, trials)
    elif output is not None:
        goal = "Maximize" if sweep.maximizes else "Minimize"
        head = {"sweep": sweep.name, "metric": sweep.metric, "goal": goal}
        write_document(sys.stdout, head | {"results": [trial.document() for trial in trials]}, output)
    elif trials:
        lines = result_table(trials, width=width_of(sys.stdout), colour=has_colour(sys.stdout))
        write_lines(lines)
    else:
        message(f'sweep "{sweep.name}" has no trials yet')
    return CommandExitCode.OK


def _create(connection: ClusterOptions, file: str, *, dry_run: str | None = None, follow: bool = False) -> int:
    """Create the sweep of a file and return the exit code: 0, or 1 if it is invalid; with `follow` the sweep's.

    Raises:
        CommandError: a file cannot be read, it has several sweeps, or another namespace than the command line.
        ClientError: a request failed.
    """
    inputs = jobs.read(file)
    document = _sweep(inputs, file)
    if document is None:
        return CommandExitCode.NEGATIVE
    own_namespace = document.value["metadata"].get("namespace")
    if connection.namespace and own_namespace and own_namespace != connection.namespace:
        raise CommandError(
            f"--namespace {connection.namespace}: the manifest has the namespace {own_namespace}; change one of them"
        )
    config_maps = config_map_manifests(inputs, own_namespace or connection.namespace or "")
    if dry_run == "client":
        submission = prepare(document.value, connection.namespace or "", None, config_maps)
        manifests.write_yaml(sys.stdout, [(manifest, []) for manifest in (*submission.config_maps, submission.job)])
        return CommandExitCode.OK
    client = connection.client()
    handle = client.sweeps.submit(document.value, config_maps=config_maps, dry_run=dry_run is not None)
    print(f"{SWEEP.resource}/{handle.name} created{' (server dry run)' if dry_run else ''}", flush=True)
    inside = client.in_namespace(handle.namespace)
    if follow:
        return attach.follow(inside, Reference(SWEEP, handle.name))
    if not dry_run:
        message(f"follow it: {to_copy(inside, 'sweep', 'attach', handle.name)}")
    return CommandExitCode.OK


def _sweep(inputs: list[Document], file: str) -> Document | None:
    """Return the sweep of a file; None, after messages, if it is invalid or the file has no sweep."""
    jobs.report_not_created(inputs, SWEEP_KIND)
    sweeps = jobs.unchecked(inputs, file, "create", DocumentKind.SWEEP)
    if not sweeps:
        return None
    document = jobs.only(sweeps, file, "create", "sweep")
    problems = list(findings(document))
    for problem in problems:
        problem.print(sys.stderr)
    return document if all(problem.severity == "warning" for problem in problems) else None


def result_table(trials: Sequence[Trial], *, width: int | None, colour: bool = False) -> list[str]:
    """Return the lines of a table of trials, with a column for each parameter.

    Args:
        trials: one row each.
        width: of the terminal; None does not cut anything.
        colour: whether the phases are coloured.
    """
    names, has_results = parameter_names(trials), any(trial.returned for trial in trials)
    headings = [
        Column("TRIAL"),
        Column("JOB", 12),
        Column("PHASE", colours=PHASE_COLOURS),
        Column("VALUE"),
        Column("STEP"),
        *(Column(printable(name), 6) for name in names),
        *([Column("RESULT", 6)] if has_results else []),
        Column("REASON", 8),
    ]
    cells = [
        [
            *_trial_cells(trial),
            *(cell(trial.parameters.get(name)) for name in names),
            *([cell(trial.document().get("result"))] if has_results else []),
            trial.reason,
        ]
        for trial in trials
    ]
    return table(headings, cells, width=width, colour=colour)


def write_csv(stream: TextIO, trials: Sequence[Trial]) -> None:
    """Write trials as CSV with a heading: a parameter is the column `parameters.NAME`; lists and objects are JSON."""
    writer = csv.DictWriter(stream, columns(trials), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_text(value) for name, value in row.items()} for row in rows(trials))


def _trial_cells(trial: Trial) -> list[str]:
    return [str(trial.number), trial.job, str(trial.phase), cell(trial.value), cell(trial.step)]
