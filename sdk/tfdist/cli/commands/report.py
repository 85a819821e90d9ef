"""`tfdist report JOB`: one file for a bug report."""

import io
import os
import tarfile
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from tfdist.cli.command_line import command
from tfdist.cli.connection import ClusterOptions, attach_job
from tfdist.cli.errors import CommandError, CommandExitCode
from tfdist.cli.options import JobName
from tfdist.cli.output import message
from tfdist.client.report import CONTENTS, File, Report
from tfdist.messages import count


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
    _check(target)
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
        _check(target)
        Path(temporary).rename(target)


def _check(target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise CommandError(f"{target}: exists already; choose another file by --output")
    if not target.parent.is_dir():
        raise CommandError(f"{target}: its folder does not exist")


def _unwritable(target: Path, error: OSError) -> CommandError:
    if isinstance(error, FileExistsError):
        return CommandError(f"{target}: exists already; choose another file by --output")
    return CommandError(f"{target}: cannot be written: {error.strerror}; choose another file by --output")
