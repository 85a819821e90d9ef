"""Log lines of a job's replicas on the console, and which replicas are shown."""

import re
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from pydantic import ValidationError

from tfdist.api.v1 import TFDistJob
from tfdist.cli.console import RunConsole
from tfdist.cli.errors import CommandError
from tfdist.cli.output import message
from tfdist.client.job import Job
from tfdist.client.log_stream import LogLine
from tfdist.contract import Role, replica_name
from tfdist.render.gang import Gang, gangs

_MOST_REPLICAS: Final = 16
"""The logs of more replicas are shown on request only: each line of a few hundred would hide the others."""
_GANG_ROLES: Final = frozenset({Role.CHIEF, Role.WORKER, Role.PS})


class LogView:
    """Writes log lines to a console, with a line between two attempts."""

    def __init__(self, console: RunConsole, *, grep: re.Pattern[str] | None = None, timestamps: bool = False) -> None:
        """Show lines that match `grep`, with their times if `timestamps`."""
        self._console, self._grep, self._timestamps = console, grep, timestamps
        self._attempts: dict[str, int] = {}

    def show(self, lines: Iterable[LogLine]) -> None:
        """Write lines in their order, as many as possible in one call of the console, which costs more than a line."""
        pending: list[tuple[str, str]] = []
        for (replica, attempt), group in groupby(lines, lambda line: (line.replica, line.attempt)):
            if separator := self._separator(replica, attempt):
                self._console.log_lines(pending)
                self._console.message(separator)
                pending = []
            texts = map(self._text, group)
            pending += [(replica, text) for text in texts if self._grep is None or self._grep.search(text)]
        self._console.log_lines(pending)

    def _separator(self, replica: str, attempt: int) -> str:
        """Return the line that goes before one of a later attempt, or "" for none."""
        role = replica.partition("-")[0]
        gang = "" if role in _GANG_ROLES else f" of {replica}"
        if attempt <= self._attempts.setdefault(gang, attempt):
            return ""
        self._attempts[gang] = attempt
        return f"---- attempt {attempt}{gang} ----"

    def _text(self, line: LogLine) -> str:
        # Of a line that is overwritten by carriage returns, as a progress bar, only the last state.
        text = line.text.rpartition("\r")[2]
        return f"{line.time} {text}" if self._timestamps else text


def new_console(job: Job) -> RunConsole:
    """Return the console for the logs of a job, on standard output."""
    return RunConsole(sys.stdout, replica_names(job), time.monotonic)


def replica_names(job: Job) -> list[str]:
    """Return the names of all replicas that the specification has, in the order of their start."""
    return [member.name for gang in _gangs(job) for member in gang.members]


def leader_name(job: Job) -> str:
    """Return the name of the replica that leads training; "" for an invalid job."""
    return next((gang.leader.name for gang in _gangs(job)), "")


def shown_replicas(job: Job, *, all_replicas: bool) -> frozenset[str] | None:
    """Return the replicas whose logs are shown, or None for all; a message names the omitted ones."""
    members = _gangs(job)
    number = sum(len(gang.members) for gang in members)
    if all_replicas or number <= _MOST_REPLICAS:
        return None
    leaders = [gang.leader.name for gang in members]
    leader_text = f"{leaders[0]}, which leads" if len(leaders) == 1 else f"{', '.join(leaders)}, which lead"
    message(f"{job.name} has {number} replicas: only the log of {leader_text}, is shown; --all shows all")
    return frozenset(leaders)


def check_replica(job: Job, replica: str) -> None:
    """Raise an error if a job has no replica of this name.

    Raises:
        CommandError: with the names that exist.
    """
    names = replica_names(job)
    if names and replica not in names:
        raise CommandError(f"{job.name} has no replica {replica}: it has {_ranges(_gangs(job))}")


def _gangs(job: Job) -> Sequence[Gang]:
    try:
        return gangs(TFDistJob.model_validate({key: job.manifest[key] for key in job.manifest if key != "status"}))
    except ValidationError:
        return ()  # an invalid job has no replicas


def _ranges(members: Iterable[Gang]) -> str:
    """Return the names of replicas, such as `chief-0, worker-0 to worker-3`."""
    sizes = [size for gang in members for size in gang.sizes().items()]
    return ", ".join(
        replica_name(role, 0) + (f" to {replica_name(role, number - 1)}" if number > 1 else "")
        for role, number in sizes
    )
