"""`tfdist top` and `tfdist cost`: what jobs use and do now, and what they have used and cost."""

import math
import pathlib
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from tfdist.cli import yaml_loader
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job, name_of
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.kinds import JOB
from tfdist.cli.manifests import write_json_document
from tfdist.cli.object_table import Prices, Spent, cost_table, spent, top_table, total
from tfdist.cli.options import AllNamespaces, OptionalJobName, seconds
from tfdist.cli.output import has_colour, message, width_of, write_lines
from tfdist.client.api_server import jobs_path
from tfdist.client.client import Client
from tfdist.client.errors import ClientError
from tfdist.client.job import Job
from tfdist.client.watch import watch_collection
from tfdist.timestamps import parse_time

_REDRAW_SECONDS: Final = 2.0

_PRICE_FIELDS: Final = {"gpuHour": "gpu_hour", "cpuHour": "cpu_hour", "currency": "currency"}
_DIGITS: Final = 6


@command
def top(
    connection: ClusterOptions,
    name: OptionalJobName = None,
    *,
    all_namespaces: AllNamespaces = False,
    watch: Annotated[bool, typer.Option("-w", "--watch", help="Redraw the table every 2 s, until Ctrl-C.")] = False,
) -> int:
    """Show what jobs use and do now: GPUs and requested CPUs, step, throughput, step time.

    Leaves out jobs that have ended, unless you name one. The job with the most GPUs comes first.

    Exits 0, also if there are no jobs; or 2 if the job does not exist or a request fails, 130 after Ctrl-C.
    """
    client = connection.client()
    if name and all_namespaces:
        raise CommandError(f"{name} is a job of one namespace: leave out -A, or the name")
    if watch and not sys.stdout.isatty():
        raise CommandError(
            "--watch redraws a terminal, and standard output is not a terminal: leave it out to print one table"
        )
    name = name_of(name, JOB) if name else None
    jobs = [attach_job(client, name).job] if name else client.list(all_namespaces=all_namespaces) if not watch else []
    if watch:
        return _watch(_JobsInBackground(client, name, all_namespaces=all_namespaces), namespaces=all_namespaces)
    lines = _top_lines(jobs, name, namespaces=all_namespaces)
    write_lines(lines)
    if not lines:
        message("No jobs run" if all_namespaces else f"No jobs run in {client.namespace} namespace.")
    return CommandExitCode.OK


class _JobsInBackground:
    """The jobs as one watch reports them, in a thread."""

    def __init__(self, client: Client, name: str | None, *, all_namespaces: bool) -> None:
        self.name = name
        path = jobs_path(None if all_namespaces else client.namespace)
        self._changes = (list(map(Job, stored)) for stored in watch_collection(client.api, path, name))
        self._jobs: Sequence[Job] = next(self._changes)  # the first request fails here
        self._ended, self._error = threading.Event(), ClientError("the watch has ended")
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            for jobs in self._changes:
                self._jobs = jobs
        except ClientError as error:
            self._error = error
        finally:
            self._ended.set()

    def after(self, seconds: float) -> Sequence[Job]:
        """Return the jobs after a time.

        Raises:
            ClientError: a request failed.
        """
        if self._ended.wait(seconds):
            raise self._error
        return self._jobs


def _watch(jobs: _JobsInBackground, *, namespaces: bool) -> int:
    """Redraw the table until a request fails, or Ctrl-C."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    with Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False) as live:
        seconds = 0.0
        while True:
            lines = _top_lines(jobs.after(seconds), jobs.name, namespaces=namespaces)
            live.update(Text.from_ansi("\n".join(lines or ["no jobs run"])), refresh=True)
            seconds = _REDRAW_SECONDS


def _top_lines(jobs: Sequence[Job], name: str | None, *, namespaces: bool) -> list[str]:
    """Return the table of a named job, or of the jobs that have not ended; empty if there are none."""
    selected = [job for job in jobs if name or not job.is_final or _uses(job)]
    if not selected:
        return []
    return top_table(selected, width=width_of(sys.stdout), namespaces=namespaces, colour=has_colour(sys.stdout))


def _uses(job: Job) -> bool:
    """Return whether pods of a job still run, such as parameter servers with `cleanPodPolicy: None`."""
    usage = job.status.usage
    return usage is not None and bool(usage.gpus or usage.cpus)


@dataclass(frozen=True, slots=True)
class CostOptions:
    """What is requested on the command line."""

    name: str | None
    all_namespaces: bool = False
    prices: pathlib.Path | None = None
    since: str | None = None
    output: str | None = None

    def check(self) -> None:
        """Check what needs no cluster, before a request.

        Raises:
            CommandError: a job and all namespaces are requested, or prices or duration are malformed.
        """
        if self.name and self.all_namespaces:
            raise CommandError(f"{self.name} is a job of one namespace: leave out -A, or the name")
        self.read_prices()
        self.earliest(datetime.now(UTC))

    def read_prices(self) -> Prices | None:
        """Return the prices of the file; None without a file.

        Raises:
            CommandError: the file cannot be read, or is malformed.
        """
        return None if self.prices is None else read_prices(self.prices)

    def earliest(self, now: datetime) -> datetime | None:
        """Return the time before which a job must not have ended; None for no such time.

        Raises:
            CommandError: `since` is not a duration.
        """
        if self.since is None:
            return None
        try:
            return now - timedelta(seconds=seconds(self.since, "--since"))
        except OverflowError:
            raise CommandError(f"--since {self.since}: is too long") from None


@command
def cost(
    connection: ClusterOptions,
    name: OptionalJobName = None,
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
        Literal["json"] | None, typer.Option("-o", "--output", help="Default: a table.", show_default=False)
    ] = None,
) -> int:
    """Show the GPU and CPU hours of jobs, and how much of that time was productive or lost.

    Productive is the share of the time spent on steps that were kept; lost, on steps that a restart repeated. The rest
    is the start, checkpoints and evaluation.

    Exits 0, also if there are no jobs; or 2 if the job does not exist, a price is wrong, or a request fails.
    """
    request = CostOptions(name, all_namespaces=all_namespaces, prices=prices, since=since, output=output)
    request.check()
    client = connection.client()
    now = datetime.now(UTC)
    price_list, earliest = request.read_prices(), request.earliest(now)
    named = [attach_job(client, request.name).job] if request.name else None
    jobs = named or client.list(all_namespaces=request.all_namespaces)
    costs = [(job, spent(job, now)) for job in jobs if earliest is None or _end_time(job, now) >= earliest]
    if request.output == "json":
        write_json_document(sys.stdout, document(costs, price_list))
    elif costs:
        lines = cost_table(costs, price_list, width=width_of(sys.stdout), namespaces=request.all_namespaces)
        write_lines(lines)
    else:
        message("No jobs found" if request.all_namespaces else f"No jobs found in {client.namespace} namespace.")
    return CommandExitCode.OK


def document(costs: Sequence[tuple[Job, Spent]], prices: Prices | None) -> dict[str, Any]:
    """Return the use of jobs, and the sum, as JSON."""
    jobs = [{"namespace": job.namespace, "name": job.name} | _numbers(use, prices) for job, use in costs]
    currency = {"currency": prices.currency} if prices and prices.currency else {}
    return {"jobs": jobs, "total": _numbers(total(use for _, use in costs), prices)} | currency


def read_prices(path: pathlib.Path) -> Prices:
    """Return the prices in a YAML file with the fields `gpuHour`, `cpuHour` and `currency`.

    Raises:
        CommandError: the file cannot be read, or is malformed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise CommandError(f"--prices {path}: {reason}") from None
    found = next((value for value, _ in yaml_loader.load(text, str(path))), None)
    if not isinstance(found, dict) or not found or found.keys() - _PRICE_FIELDS.keys():
        raise CommandError(f"--prices {path}: write the fields gpuHour, cpuHour and currency, such as gpuHour: 2.5")
    return Prices(**{_PRICE_FIELDS[name]: _price(path, name, value) for name, value in found.items()})


def _price(path: pathlib.Path, name: str, value: Any) -> Any:
    if name == "currency":
        if not isinstance(value, str) or not value.isprintable():
            raise CommandError(f"--prices {path}: currency: write text, such as EUR")
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise CommandError(f"--prices {path}: {name}: write a number, such as 2.5")
    return float(value)


def _numbers(use: Spent, prices: Prices | None) -> dict[str, Any]:
    numbers = {
        "gpuHours": use.gpu_hours,
        "cpuHours": use.cpu_hours,
        "productiveShare": use.productive,
        "lostShare": use.lost,
        "cost": use.cost(prices) if prices else None,
    }
    return {name: round(value, _DIGITS) for name, value in numbers.items() if value is not None}


def _end_time(job: Job, now: datetime) -> datetime:
    return parse_time(job.status.completion_time) if job.status.completion_time else now
