"""Tables of jobs and sweeps with the columns of kubectl, of their use and cost, and the documents that are stored."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from tfdist.api.history_status import Usage
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

_HOUR: Final = 3600.0
_TOP: Final = (
    Column("NAME", 16), Column("PHASE", colours=PHASE_COLOURS), Column("READY"), Column("GPUS"), Column("CPUS"),
    Column("STEP"), Column("EXAMPLES/S"), Column("STEP TIME"),
)  # fmt: skip
_COST: Final = (Column("NAME", 16), Column("GPU HOURS"), Column("CPU HOURS"), Column("PRODUCTIVE"), Column("LOST"))


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


@dataclass(frozen=True, slots=True)
class Prices:
    """What an hour costs."""

    gpu_hour: float = 0.0
    cpu_hour: float = 0.0
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """Use of one job or of several, up to one time."""

    gpu_hours: float = 0.0
    cpu_hours: float = 0.0
    attempt_seconds: float = 0.0
    """Time in which an attempt ran."""
    productive_seconds: float = 0.0
    lost_seconds: float = 0.0

    @property
    def productive(self) -> float | None:
        """Share of the time in steps that were kept; None if nothing is known of its time."""
        return _share(self.productive_seconds, self.attempt_seconds)

    @property
    def lost(self) -> float | None:
        """Share of the time in steps that were repeated."""
        return _share(self.lost_seconds, self.attempt_seconds)

    def cost(self, prices: Prices) -> float:
        """Return the cost at these prices."""
        return self.gpu_hours * prices.gpu_hour + self.cpu_hours * prices.cpu_hour


def spent(job: "Job", now: datetime) -> Spent:
    """Return what a job used up to a time: the stored seconds, and what its pods use since."""
    usage = job.status.usage or Usage()
    elapsed = max(0.0, (now - parse_time(usage.updated_at)).total_seconds()) if usage.updated_at else 0.0
    return Spent(
        ((usage.gpu_seconds or 0.0) + (usage.gpus or 0.0) * elapsed) / _HOUR,
        ((usage.cpu_seconds or 0.0) + (usage.cpus or 0.0) * elapsed) / _HOUR,
        _attempt_seconds(job, now),
        usage.productive_seconds or 0.0,
        usage.lost_seconds or 0.0,
    )


def total(parts: Iterable[Spent]) -> Spent:
    """Return the sum."""
    items = list(parts)
    return Spent(
        sum(p.gpu_hours for p in items),
        sum(p.cpu_hours for p in items),
        sum(p.attempt_seconds for p in items),
        sum(p.productive_seconds for p in items),
        sum(p.lost_seconds for p in items),
    )


def top_table(jobs: Sequence["Job"], *, width: int | None, namespaces: bool, colour: bool) -> list[str]:
    """Return the lines of `tfdist top`, jobs with most GPUs first."""
    columns = (*([_NAMESPACE] if namespaces else ()), *_TOP)
    sorted_jobs = sorted(jobs, key=lambda job: (*_in_use(job), job.namespace, job.name))
    rows = [[*([job.namespace] if namespaces else ()), *_top_cells(job)] for job in sorted_jobs]
    return table(columns, rows, width=width, colour=colour)


def cost_table(
    jobs: Sequence[tuple["Job", Spent]], prices: Prices | None, *, width: int | None, namespaces: bool
) -> list[str]:
    """Return the lines of `tfdist cost`; the last one of several jobs is their sum."""
    first = [_NAMESPACE] if namespaces else []
    heading = f"COST ({prices.currency})" if prices and prices.currency else "COST"
    columns = (*first, *_COST, *([Column(heading)] if prices else ()))
    rows = [[*([job.namespace] if namespaces else ()), job.name, *_cost_cells(use, prices)] for job, use in jobs]
    if len(jobs) > 1:
        rows.append([*([""] if namespaces else ()), "TOTAL", *_cost_cells(total(use for _, use in jobs), prices)])
    return table(columns, rows, width=width)


def amount(value: float) -> str:
    """Return a number of GPUs or cores: `2`, `0.5`."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def percentage(share: float | None) -> str:
    """Return a share in percent; "" if it is not known."""
    return "" if share is None else f"{share:.0%}"


def _top_cells(job: "Job") -> list[str]:
    usage, progress, summary = job.status.usage, job.status.progress, job.status.summary
    return [
        job.name,
        phase_of(job),
        (summary.ready if summary else None) or "",
        "" if usage is None or usage.gpus is None else amount(usage.gpus),
        "" if usage is None or usage.cpus is None else amount(usage.cpus),
        "" if progress is None or progress.step is None else str(progress.step),
        "" if progress is None or progress.examples_per_second is None else f"{progress.examples_per_second:,.0f}",
        "" if progress is None or progress.step_time_millis is None else f"{progress.step_time_millis:,.1f} ms",
    ]


def _cost_cells(use: Spent, prices: Prices | None) -> list[str]:
    hours = [f"{use.gpu_hours:,.2f}", f"{use.cpu_hours:,.2f}", percentage(use.productive), percentage(use.lost)]
    return [*hours, *([f"{use.cost(prices):,.2f}"] if prices else ())]


def _in_use(job: "Job") -> tuple[float, float]:
    usage = job.status.usage or Usage()
    return -(usage.gpus or 0.0), -(usage.cpus or 0.0)


def _attempt_seconds(job: "Job", now: datetime) -> float:
    """Return the time in which attempts ran; of the time before those that are listed, the whole counts."""
    attempts, start = job.status.attempts or [], job.status.start_time
    spans = [(attempt.started_at, attempt.ended_at) for attempt in attempts]
    if attempts and attempts[0].attempt and start and start < spans[0][0]:
        spans.append((start, spans[0][0]))
    ends = [(parse_time(end) if end else now) - parse_time(begin) for begin, end in spans]
    return sum(max(0.0, duration.total_seconds()) for duration in ends)


def _share(part: float, whole: float) -> float | None:
    return min(1.0, part / whole) if whole else None
