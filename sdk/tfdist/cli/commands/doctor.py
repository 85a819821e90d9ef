"""`tfdist doctor [JOB]`: checks the cluster, the user's rights, the namespace, and a job."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Final, Literal

import typer

from tfdist.cli import completion
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job, to_copy
from tfdist.cli.errors import CommandExitCode
from tfdist.cli.output import GREEN, RED, YELLOW, has_colour, message, width_of, write_lines
from tfdist.cli.tables import Column, text_rows
from tfdist.client.client import Client
from tfdist.client.doctor import Check, Result, diagnose
from tfdist.messages import count

_COLOURS: Final[Mapping[str, str]] = {Result.OK: GREEN, Result.WARNING: YELLOW, Result.PROBLEM: RED}
_COLUMNS: Final = (Column("RESULT", colours=_COLOURS), Column("CHECK"))
_WIDTH: Final = max(map(len, Result))


@command
def doctor(
    connection: ClusterOptions,
    name: Annotated[
        str | None, typer.Argument(metavar="JOB", help="Also check this job.", autocompletion=completion.job_names)
    ] = None,
    *,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Output format.")] = "text",
) -> int:
    """Check the cluster, your rights and the namespace, and a job that has problems.

    Run it before you submit the first job. Each line is a check with its result: ok, warning, problem, or unknown if
    you have no right to read what the check needs.

    Exits 0 without problems, or 1 if there is a problem, 2 if a request fails.
    """
    client = connection.client()
    job = attach_job(client, name).job if name else None
    checks = []
    for check in diagnose(client, job):
        checks.append(check)
        if output == "text":
            lines = _lines(check, width=width_of(sys.stdout), colour=has_colour(sys.stdout))
            write_lines(lines)
    if output == "json":
        print(json.dumps({"checks": [asdict(check) for check in checks]}, indent=2))
    problems = sum(check.result is Result.PROBLEM for check in checks)
    message(_summary(client, name, problems))
    return CommandExitCode.NEGATIVE if problems else CommandExitCode.OK


def _lines(check: Check, *, width: int | None, colour: bool) -> list[str]:
    return text_rows(_COLUMNS, [(check.result, text(check))], (_WIDTH, 0), width=width, colour=colour)


def text(check: Check) -> str:
    """Return what was checked, the finding, and what to do."""
    return f"{check.subject}: {check.message}{f'; {check.remedy}' if check.remedy else ''}"


def _summary(client: Client, name: str | None, problems: int) -> str:
    if problems:
        advice = f"; for a bug report: {to_copy(client, 'report', name)}" if name else ""
        return f"{count(problems, 'problem')} found{advice}"
    return (
        f"no problems found; next: {to_copy(client, 'describe', name) if name else to_copy(client, 'submit', 'FILE')}"
    )
