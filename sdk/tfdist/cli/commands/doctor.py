"""`tfdist doctor [JOB]`: checks the cluster and a job; `tfdist report JOB`: one file for a bug report."""

import io
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from tfdist.cli import completion
from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job, to_copy
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.options import JobName
from tfdist.cli.output import GREEN, RED, YELLOW, has_colour, message, width_of, write_lines
from tfdist.cli.tables import Column, text_rows
from tfdist.client.client import Client
from tfdist.client.doctor import Check, Result, diagnose
from tfdist.client.report import CONTENTS, File, Report
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


@command
def report(
    connection: ClusterOptions,
    name: JobName,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.tar.gz", help="Default: tfdist-report-JOB-TIME.tar.gz.", show_default=False
        ),
    ] = None,
) -> int:
    """Write one file for a bug report.

    It contains the job, its pods and events, the ends of the logs, versions, and the result of `tfdist doctor`. Values
    that may be secret are masked; its `contents.txt` lists them, and what could not be read.

    Exits 0, or 2 if a request fails or the file exists.
    """
    client = connection.client()
    timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    target = output or Path(f"tfdist-report-{name}-{timestamp}.tar.gz")
    _check_target(target)
    report = Report(client, attach_job(client, name).job)
    write(target, report.files(), target.name.removesuffix(".tar.gz"))
    print(target)
    unread = f", {count(len(report.unread), 'part')} could not be read" if report.unread else ""
    message(f"{count(len(report.masked), 'value')} masked{unread}: read {CONTENTS} in it before you send it")
    return CommandExitCode.OK


def write(target: Path, files: Iterable[File], folder: str) -> None:
    """Write an archive: completely or not at all, and never over a file that exists.

    Raises:
        CommandError: the file exists or cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # only the user reads it
    except OSError as error:
        raise _unwritable(target, error) from None
    try:
        with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for file in files:
                entry = tarfile.TarInfo(f"{folder}/{file.name}")
                entry.size, entry.mtime, entry.mode = len(file.content), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(file.content))
        _publish(temporary, target)
    except OSError as error:
        raise _unwritable(target, error) from None
    finally:
        Path(temporary).unlink(missing_ok=True)


def _publish(temporary: str, target: Path) -> None:
    """Give a file its name, unless another file has it."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        _check_target(target)
        Path(temporary).rename(target)


def _check_target(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise CommandError(f"{target}: exists already; choose another file by --output")
    if not target.parent.is_dir():
        raise CommandError(f"{target}: its folder does not exist")


def _unwritable(target: Path, error: OSError) -> CommandError:
    if isinstance(error, FileExistsError):
        return CommandError(f"{target}: exists already; choose another file by --output")
    return CommandError(f"{target}: cannot be written: {error.strerror}; choose another file by --output")
