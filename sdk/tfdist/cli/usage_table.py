"""The past and current resource usage of jobs, from their statuses: numbers and rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tfdist.api.history_status import Usage
from tfdist.cli.object_table import PHASE_COLOURS, phase_of
from tfdist.cli.tables import Column, table
from tfdist.timestamps import parse_time

if TYPE_CHECKING:
    from tfdist.client.job import Job

_HOUR: Final = 3600.0
_NAMESPACE: Final = Column("NAMESPACE", 12)
_TOP: Final = (
    Column("NAME", 16), Column("PHASE", colours=PHASE_COLOURS), Column("READY"), Column("GPUS"), Column("CPUS"),
    Column("STEP"), Column("EXAMPLES/S"), Column("STEP TIME"),
)  # fmt: skip
_COST: Final = (Column("NAME", 16), Column("GPU HOURS"), Column("CPU HOURS"), Column("PRODUCTIVE"), Column("LOST"))


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
