"""Jobs and sweeps as rows of a table with the columns of kubectl, and as the documents that the API server stores."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from tfdist.api.status import JobPhase, Summary
from tfdist.cli.kinds import JOB, SWEEP, Kind
from tfdist.cli.manifests import ordered, write_json_document, write_yaml
from tfdist.cli.output import GREEN, RED, YELLOW, has_colour, one_line, width_of, write_lines
from tfdist.cli.tables import Column, age, table
from tfdist.printable import printable
from tfdist.timestamps import parse_time

if TYPE_CHECKING:
    from tfdist.client.job import Job
    from tfdist.client.stored import StoredObject
    from tfdist.client.sweep import Sweep

PHASE_COLOURS: Final[Mapping[str, str]] = {
    JobPhase.SUCCEEDED: GREEN,
    JobPhase.FAILED: RED,
    JobPhase.INVALID: RED,
    JobPhase.RESTARTING: YELLOW,
    JobPhase.SUSPENDING: YELLOW,
    JobPhase.SUSPENDED: YELLOW,
}

_NAMESPACE: Final = Column("NAMESPACE", 12)
_PHASE: Final = Column("PHASE", colours=PHASE_COLOURS)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a kind, and the cells of an object of it."""

    usual: tuple[Column, ...]
    wide: tuple[Column, ...]
    """Columns that `-o wide` adds."""
    cells: Callable[[Any, datetime], list[str]]
    wide_cells: Callable[[Any], list[str]]


def object_table(
    kind: Kind,
    objects: "Sequence[StoredObject]",
    now: datetime,
    *,
    width: int | None,
    namespaces: bool = False,
    wide: bool = False,
    colour: bool = False,
) -> list[str]:
    """Return the lines of a table of jobs or sweeps.

    Args:
        kind: of the objects.
        objects: one row each.
        now: the time that ages end at.
        width: of the terminal; None does not cut anything.
        namespaces: whether the namespace is shown.
        wide: whether the columns of `-o wide` are shown.
        colour: whether the phases are coloured.
    """
    columns = _COLUMNS[kind]
    headings = (*([_NAMESPACE] if namespaces else ()), *columns.usual, *(columns.wide if wide else ()))
    rows = [
        [
            *([stored.namespace] if namespaces else ()),
            *columns.cells(stored, now),
            *(columns.wide_cells(stored) if wide else ()),
        ]
        for stored in objects
    ]
    return table(headings, rows, width=width, colour=colour)


def write_table(
    stream: TextIO,
    kind: Kind,
    objects: "Sequence[StoredObject]",
    output: str | None,
    now: datetime,
    *,
    namespaces: bool = False,
) -> None:
    """Write jobs or sweeps as a table, which `wide` extends, or by `name`; cut and colour cells on a terminal only."""
    if output == "name":
        stream.writelines(f"{kind.full_resource}/{stored.name}\n" for stored in objects)
        return
    width, colour = width_of(stream), has_colour(stream)
    lines = object_table(kind, objects, now, width=width, namespaces=namespaces, wide=output == "wide", colour=colour)
    write_lines(lines, stream)


def phase_of(stored: "StoredObject") -> str:
    """Return the phase of a job or sweep as stored, also one that only a newer version knows."""
    return printable(str((stored.manifest.get("status") or {}).get("phase") or JobPhase.PENDING))


def write_document(stream: TextIO, document: Mapping[str, Any], output: str) -> None:
    """Write a document as `json` or `yaml`."""
    if output == "yaml":
        write_yaml(stream, [(document, ())])
        return
    write_json_document(stream, ordered(document))


def document_of(kind: Kind, stored: "StoredObject") -> dict[str, Any]:
    """Return a stored object without `metadata.managedFields`."""
    metadata = {key: value for key, value in stored.manifest["metadata"].items() if key != "managedFields"}
    return {"apiVersion": kind.api_version, "kind": kind.kind} | dict(stored.manifest) | {"metadata": metadata}


def cell(value: Any) -> str:
    """Return a value of a parameter or metric for people: a number with six digits, text as it is, otherwise JSON."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return one_line(printable(as_text(value)))


def as_text(value: Any) -> str:
    """Return a value in whole: text as it is, otherwise JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _job_cells(job: "Job", now: datetime) -> list[str]:
    summary = job.status.summary or Summary()
    return [
        job.name,
        phase_of(job),
        summary.ready or "",
        summary.progress or _step(job),
        summary.eta or "",
        one_line(printable(summary.metric or "")),
        summary.restarts or "",
        age(now - parse_time(job.created)),
    ]


def _step(job: "Job") -> str:
    """Return the step of a job that does not report its number of steps."""
    step = job.status.progress.step if job.status.progress else None
    return "" if step is None else f"step {step}"


def _wide_job_cells(job: "Job") -> list[str]:
    queue = job.status.scheduling.queue if job.status.scheduling else None
    return [queue or "", one_line(printable(job.message))]


def _sweep_cells(sweep: "Sweep", now: datetime) -> list[str]:
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


def _wide_sweep_cells(sweep: "Sweep") -> list[str]:
    trials = sweep.status.trials
    counts = (trials.succeeded, trials.failed) if trials else (None, None)
    return [*map(cell, counts), one_line(printable(sweep.message))]


_COLUMNS: Final[Mapping[Kind, _Columns]] = {
    JOB: _Columns(
        usual=(
            Column("NAME", 16),
            _PHASE,
            Column("READY"),
            Column("PROGRESS"),
            Column("ETA"),
            Column("METRIC", 8),
            Column("RESTARTS"),
            Column("AGE"),
        ),
        wide=(Column("QUEUE", 8), Column("MESSAGE", 12)),
        cells=_job_cells,
        wide_cells=_wide_job_cells,
    ),
    SWEEP: _Columns(
        usual=(
            Column("NAME", 12),
            _PHASE,
            Column("TRIALS"),
            Column("RUNNING"),
            Column("STOPPED"),
            Column("BEST"),
            Column("BEST-JOB", 12),
            Column("AGE"),
        ),
        wide=(Column("SUCCEEDED"), Column("FAILED"), Column("MESSAGE", 12)),
        cells=_sweep_cells,
        wide_cells=_wide_sweep_cells,
    ),
}
