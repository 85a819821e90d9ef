"""`tfdist top`: what jobs use and do now."""

import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import attach, name_of
from tfdist.cli.kinds import JOB
from tfdist.cli.options import AllNamespaces, OptionalJobName
from tfdist.cli.output import has_colour, message, width_of, write_lines
from tfdist.cli.usage_table import top_table
from tfdist.client.client import Client
from tfdist.client.errors import ClientError
from tfdist.client.job import Job
from tfdist.client.paths import jobs_path
from tfdist.client.watch import watch_collection

_REDRAW_SECONDS: Final = 2.0


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
    jobs = [attach(client, name).job] if name else client.list(all_namespaces=all_namespaces) if not watch else []
    if watch:
        return _watch(_JobsInBackground(client, name, all_namespaces=all_namespaces), namespaces=all_namespaces)
    lines = _lines(jobs, name, namespaces=all_namespaces)
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
            lines = _lines(jobs.after(seconds), jobs.name, namespaces=namespaces)
            live.update(Text.from_ansi("\n".join(lines or ["no jobs run"])), refresh=True)
            seconds = _REDRAW_SECONDS


def _lines(jobs: Sequence[Job], name: str | None, *, namespaces: bool) -> list[str]:
    """Return the table of a named job, or of the jobs that have not ended; empty if there are none."""
    selected = [job for job in jobs if name or not job.is_final or _uses(job)]
    if not selected:
        return []
    return top_table(selected, width=width_of(sys.stdout), namespaces=namespaces, colour=has_colour(sys.stdout))


def _uses(job: Job) -> bool:
    """Return whether pods of a job still run, such as parameter servers with `cleanPodPolicy: None`."""
    usage = job.status.usage
    return usage is not None and bool(usage.gpus or usage.cpus)
