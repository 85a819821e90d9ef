"""`tfdist doctor [JOB]`: checks the cluster, the user's rights, the namespace, and a job."""

import json
import sys
from dataclasses import asdict
from typing import Final

from tfdist.cli.find import attach, command
from tfdist.cli.output import GREEN, RED, RESET, YELLOW, has_colour, message
from tfdist.client.check import Check, Result
from tfdist.client.client import Client
from tfdist.client.doctor import diagnose
from tfdist.messages import count

_COLOURS: Final = {Result.OK: GREEN, Result.WARNING: YELLOW, Result.PROBLEM: RED}
_WIDTH: Final = max(map(len, Result))


def execute(client: Client, name: str | None, *, output: str) -> int:
    """Print the checks and return the exit code: 1 if there is a problem."""
    job = attach(client, name).job if name else None
    found = []
    for check in diagnose(client, job):
        found.append(check)
        if output == "text":
            print(_line(check, colour=has_colour(sys.stdout)), flush=True)
    if output == "json":
        print(json.dumps({"checks": [asdict(check) for check in found]}, indent=2))
    problems = sum(check.result is Result.PROBLEM for check in found)
    message(_summary(client, name, problems))
    return 1 if problems else 0


def _line(check: Check, *, colour: bool) -> str:
    word = f"{check.result:<{_WIDTH}}"
    if colour and check.result in _COLOURS:
        word = f"{_COLOURS[check.result]}{word}{RESET}"
    return f"{word}  {text(check)}"


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
