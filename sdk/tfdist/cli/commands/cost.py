"""`tfdist cost`: GPU and CPU hours of jobs, and what they cost."""

import math
import pathlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

import typer

from tfdist.cli import yaml_loader
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import attach
from tfdist.cli.manifests import write_json_document
from tfdist.cli.options import AllNamespaces, OptionalJobName, seconds
from tfdist.cli.output import message, width_of, write_lines
from tfdist.cli.usage_table import Prices, Spent, cost_table, spent, total
from tfdist.client.job import Job
from tfdist.timestamps import parse_time

_PRICE_FIELDS: Final = {"gpuHour": "gpu_hour", "cpuHour": "cpu_hour", "currency": "currency"}
_DIGITS: Final = 6


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
    named = [attach(client, request.name).job] if request.name else None
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
