"""Sweeps as rows of a table with the columns of kubectl, and their trials as a table or CSV."""

import csv
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, TextIO

from tfdist.cli.find import FULL_SWEEP_RESOURCE
from tfdist.cli.job_table import PHASE_COLOURS, phase_of
from tfdist.cli.output import has_colour, one_line, width_of, write_lines
from tfdist.cli.tables import Column, age, table
from tfdist.client.sweep import Sweep, Trial, columns, parameter_names, rows
from tfdist.printable import printable
from tfdist.timestamps import parse_time

_NAMESPACE: Final = Column("NAMESPACE", 12)
_COLUMNS: Final = (
    Column("NAME", 12),
    Column("PHASE", colours=PHASE_COLOURS),
    Column("TRIALS"),
    Column("RUNNING"),
    Column("STOPPED"),
    Column("BEST"),
    Column("BEST-JOB", 12),
    Column("AGE"),
)
_WIDE: Final = (Column("SUCCEEDED"), Column("FAILED"), Column("MESSAGE", 12))


def write_sweeps(
    stream: TextIO, sweeps: Sequence[Sweep], output: str | None, now: datetime, *, namespaces: bool = False
) -> None:
    """Write sweeps as a table, which `wide` extends, or by `name`.

    Args:
        stream: to write to; a terminal decides about width and colour.
        sweeps: one row each.
        output: None, `wide` or `name`.
        now: the time that ages end at.
        namespaces: whether the namespace is shown.
    """
    if output == "name":
        stream.writelines(f"{FULL_SWEEP_RESOURCE}/{sweep.name}\n" for sweep in sweeps)
        return
    wide = output == "wide"
    headings = (*([_NAMESPACE] if namespaces else ()), *_COLUMNS, *(_WIDE if wide else ()))
    cells = [
        [*([each.namespace] if namespaces else ()), *_cells(each, now), *(_wide_cells(each) if wide else ())]
        for each in sweeps
    ]
    lines = table(headings, cells, width=width_of(stream), colour=has_colour(stream))
    write_lines(lines, stream)


def result_table(trials: Sequence[Trial], *, width: int | None, colour: bool = False) -> list[str]:
    """Return the lines of a table of trials, with a column for each parameter.

    Args:
        trials: one row each.
        width: of the terminal; None does not cut anything.
        colour: whether the phases are coloured.
    """
    names = parameter_names(trials)
    headings = [
        Column("TRIAL"),
        Column("JOB", 12),
        Column("PHASE", colours=PHASE_COLOURS),
        Column("VALUE"),
        Column("STEP"),
        *(Column(printable(name), 6) for name in names),
        Column("REASON", 8),
    ]
    cells = [
        [*_trial_cells(trial), *(cell(trial.parameters.get(name)) for name in names), trial.reason] for trial in trials
    ]
    return table(headings, cells, width=width, colour=colour)


def write_csv(stream: TextIO, trials: Sequence[Trial]) -> None:
    """Write trials as CSV with a heading: a parameter is the column `parameters.NAME`; lists and objects are JSON."""
    writer = csv.DictWriter(stream, columns(trials), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _csv_cell(value) for name, value in row.items()} for row in rows(trials))


def cell(value: Any) -> str:
    """Return a value of a parameter or metric for people: a number with six digits, text as it is, otherwise JSON."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(printable(_csv_cell(value)))


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cells(sweep: Sweep, now: datetime) -> list[str]:
    trials, best = sweep.status.trials, next(iter(sweep.status.best or ()), None)
    counts = (trials.total, trials.running, trials.stopped) if trials else (None, None, None)
    return [
        sweep.name,
        phase_of(sweep),
        *map(cell, counts),
        cell(best.value) if best else "",
        best.job if best else "",
        age(now - parse_time(sweep.created)),
    ]


def _wide_cells(sweep: Sweep) -> list[str]:
    trials = sweep.status.trials
    counts = (trials.succeeded, trials.failed) if trials else (None, None)
    return [*map(cell, counts), one_line(printable(sweep.message))]


def _trial_cells(trial: Trial) -> list[str]:
    return [str(trial.number), trial.job, str(trial.phase), cell(trial.value), cell(trial.step)]
