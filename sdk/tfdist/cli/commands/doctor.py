"""`tfdist doctor [JOB]`: checks the cluster, the user's rights, the namespace, and a job."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from tfdist.cli.exit_code import ExitCode
from tfdist.cli.find import attach, command
from tfdist.cli.output import GREEN, RED, YELLOW, has_colour, message, width_of, write_lines
from tfdist.cli.tables import Column, text_rows
from tfdist.client.check import Check, Result
from tfdist.client.client import Client
from tfdist.client.doctor import diagnose
from tfdist.messages import count

_COLOURS: Final[Mapping[str, str]] = {Result.OK: GREEN, Result.WARNING: YELLOW, Result.PROBLEM: RED}
_COLUMNS: Final = (Column("RESULT", colours=_COLOURS), Column("CHECK"))
_WIDTH: Final = max(map(len, Result))


def execute(client: Client, name: str | None, *, output: str) -> int:
    """Print the checks and return the exit code: 1 if there is a problem."""
    job = attach(client, name).job if name else None
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
    return ExitCode.NEGATIVE if problems else ExitCode.OK


def _lines(check: Check, *, width: int | None, colour: bool) -> list[str]:
    return text_rows(_COLUMNS, [(check.result, text(check))], (_WIDTH, 0), width=width, colour=colour)


def text(check: Check) -> str:
    """Return what was checked, the finding, and what to do."""
    return f"{check.subject}: {check.message}{f'; {check.remedy}' if check.remedy else ''}"


def _summary(client: Client, name: str | None, problems: int) -> str:
    if problems:
        advice = f"; for a bug report: {command(client, 'report', name)}" if name else ""
        return f"{count(problems, 'problem')} found{advice}"
    return (
        f"no problems found; next: {command(client, 'describe', name) if name else command(client, 'submit', 'FILE')}"
    )
