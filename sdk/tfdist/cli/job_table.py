"""Jobs as rows of a table, and as the documents that the API server stores."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from tfdist.api.resource import API_VERSION, KIND
from tfdist.api.status import JobPhase, Summary
from tfdist.cli.find import FULL_RESOURCE
from tfdist.cli.manifests import ordered, write_json_document, write_yaml
from tfdist.cli.output import GREEN, RED, YELLOW, has_colour, one_line, width_of, write_lines
from tfdist.cli.tables import Column, age, table
from tfdist.printable import printable
from tfdist.timestamps import parse_time

if TYPE_CHECKING:
    from tfdist.client.job import Job
    from tfdist.client.stored import StoredObject

PHASE_COLOURS: Final[Mapping[str, str]] = {
    JobPhase.SUCCEEDED: GREEN,
    JobPhase.FAILED: RED,
    JobPhase.INVALID: RED,
    JobPhase.RESTARTING: YELLOW,
    JobPhase.SUSPENDING: YELLOW,
    JobPhase.SUSPENDED: YELLOW,
}

_NAMESPACE: Final = Column("NAMESPACE", 12)
_COLUMNS: Final = (
    Column("NAME", 16),
    Column("PHASE", colours=PHASE_COLOURS),
    Column("READY"),
    Column("PROGRESS"),
    Column("ETA"),
    Column("METRIC", 8),
    Column("RESTARTS"),
    Column("AGE"),
)
_WIDE: Final = (Column("QUEUE", 8), Column("MESSAGE", 12))


def job_table(
    jobs: Sequence["Job"],
    now: datetime,
    *,
    width: int | None,
    namespaces: bool = False,
    wide: bool = False,
    colour: bool = False,
) -> list[str]:
    """Return the lines of a table of jobs.

    Args:
        jobs: one row each.
        now: the time that ages end at.
        width: of the terminal; None does not cut anything.
        namespaces: whether the namespace is shown.
        wide: whether queue and message are shown.
        colour: whether the phases are coloured.
    """
    columns = (*([_NAMESPACE] if namespaces else ()), *_COLUMNS, *(_WIDE if wide else ()))
    rows = [[*([job.namespace] if namespaces else ()), *_cells(job, now), *(_wide_cells(job) if wide else ())]
            for job in jobs]  # fmt: skip
    return table(columns, rows, width=width, colour=colour)


def phase_of(stored: "StoredObject") -> str:
    """Return the phase of a job or sweep as stored, also one that only a newer version knows."""
    return printable(str((stored.manifest.get("status") or {}).get("phase") or JobPhase.PENDING))


def write_jobs(
    stream: TextIO, jobs: Sequence["Job"], output: str | None, now: datetime, *, namespaces: bool = False
) -> None:
    """Write jobs as a table, `wide`, or by `name`, `json` or `yaml`: one job itself, several as a `List`."""
    if output == "name":
        stream.writelines(f"{FULL_RESOURCE}/{job.name}\n" for job in jobs)
        return
    width, colour = width_of(stream), has_colour(stream)
    lines = job_table(jobs, now, width=width, namespaces=namespaces, wide=output == "wide", colour=colour)
    write_lines(lines, stream)


def write_document(stream: TextIO, document: Mapping[str, Any], output: str) -> None:
    """Write a document as `json` or `yaml`."""
    if output == "yaml":
        write_yaml(stream, [(document, ())])
        return
    write_json_document(stream, ordered(document))


def document_of(stored: "StoredObject", api_version: str = API_VERSION, kind: str = KIND) -> dict[str, Any]:
    """Return a stored job, or an object of another kind, without `metadata.managedFields`."""
    metadata = {key: value for key, value in stored.manifest["metadata"].items() if key != "managedFields"}
    return {"apiVersion": api_version, "kind": kind} | dict(stored.manifest) | {"metadata": metadata}


def _cells(job: "Job", now: datetime) -> list[str]:
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


def _wide_cells(job: "Job") -> list[str]:
    queue = job.status.scheduling.queue if job.status.scheduling else None
    return [queue or "", one_line(printable(job.message))]
