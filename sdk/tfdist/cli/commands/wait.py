"""`tfdist wait NAME`: waits until a job or sweep has ended, or reaches a phase."""

from typing import TYPE_CHECKING, Annotated

import typer

from tfdist.api.status import JobPhase
from tfdist.cli import completion
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import CommandExitCode
from tfdist.cli.find import suggesting
from tfdist.cli.options import Name, Timeout, seconds
from tfdist.cli.output import message, one_line
from tfdist.client.errors import WaitTimeout
from tfdist.printable import printable

if TYPE_CHECKING:
    from tfdist.client.job import Job
    from tfdist.client.sweep import Sweep


@command
def wait(
    connection: ClusterOptions,
    name: Name,
    *,
    phase: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="PHASE",
            help="Phase to wait for; default: the end.",
            show_default=False,
            autocompletion=completion.phases,
        ),
    ] = "",
    timeout: Timeout = None,
) -> int:
    """Wait until a job or sweep has ended, or reaches a phase.

    Exits with the exit code of the job or sweep, as `tfdist attach` does; 0 if it reaches the phase; 124 after the
    timeout; 2 if a request fails.
    """
    phases = _phases(phase)
    limit = None if timeout is None else seconds(timeout)
    kind, own_name = connection.find(name)
    objects = kind.of(connection.client())
    with suggesting(objects, own_name):
        handle = objects.attach(own_name)
    try:
        stored = handle.wait_for(phases, limit)
    except WaitTimeout as error:
        message(error)
        return CommandExitCode.TIMEOUT
    message(f"{stored.name} {headline(stored)}")
    return CommandExitCode.OK if stored.phase in phases else stored.exit_code


def headline(stored: "Job | Sweep") -> str:
    """Return the phase of a job or sweep and, if there is one, its reason."""
    return f"{stored.phase}: {one_line(printable(stored.message))}" if stored.message else str(stored.phase)


def _phases(text: str) -> tuple[str, ...]:
    """Return the phase that a user has written in any case; sweeps have some of the phases of jobs."""
    if not text:
        return ()
    for phase in JobPhase:
        if phase.lower() == text.lower():
            return (phase,)
    raise CommandError(f"--for {text}: write a phase: {', '.join(JobPhase)}")
