"""`tfdist wait JOB`: waits until a job has ended, or has a phase."""

import re
from typing import Final

from tfdist.api.status import JobPhase
from tfdist.cli.errors import CommandError
from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import attach
from tfdist.cli.output import message
from tfdist.client.client import Client
from tfdist.client.errors import WaitTimeout

_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def execute(client: Client, name: str, *, phase: str, timeout: str | None) -> int:
    """Wait for a job and return the exit code."""
    phases = _phases(phase)
    handle = attach(client, name)
    try:
        job = handle.wait_for(phases, timeout=None if timeout is None else seconds(timeout))
    except WaitTimeout as error:
        message(error)
        return ExitCode.TIMEOUT
    message(f"{name} {job.phase}: {job.message}" if job.message else f"{name} {job.phase}")
    return 0 if job.phase in phases else job.exit_code


def seconds(text: str, option: str = "--timeout") -> float:
    """Return a duration such as `90s`, `10m` or `1h`, the value of an option, in seconds.

    Raises:
        CommandError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if match is None:
        raise CommandError(f"{option} {text}: write a duration such as 90s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2]]


def _phases(text: str) -> tuple[JobPhase, ...]:
    if not text:
        return ()
    for phase in JobPhase:
        if phase.lower() == text.lower():
            return (phase,)
    raise CommandError(f"--for {text}: write a phase: {', '.join(JobPhase)}")
