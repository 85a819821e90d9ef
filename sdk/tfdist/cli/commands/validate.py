"""`tfdist validate FILE...`: reports every error in TFDistJobs and TFDistSweeps with file, line and path, offline."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import typer

from tfdist.cli import documents
from tfdist.cli.command_line import command
from tfdist.cli.documents import Document, DocumentKind, classify
from tfdist.cli.errors import CommandExitCode, DocumentError
from tfdist.cli.findings import Finding, findings
from tfdist.cli.manifests import write_json_document
from tfdist.cli.options import Files
from tfdist.cli.output import message
from tfdist.messages import count


@command
def validate(
    files: Files,
    *,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only: no warnings, no summary.")] = False,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Output format.")] = "text",
) -> int:
    """Check TFDistJobs and TFDistSweeps offline.

    Prints a line FILE:LINE: PATH: MESSAGE for each problem, and a summary on standard error. A line with `warning:`
    is about a valid document and does not change the exit code. Documents of other kinds are skipped.

    Exits 0 if all are valid, or 1 if there are problems, 2 if a file cannot be read.
    """
    report = _Report(in_json=output == "json", quiet=quiet)
    for document in documents.read_all(files, report.add_unreadable):
        report.add(document)
    report.finish()
    return (
        CommandExitCode.FAILED
        if report.files_unreadable
        else CommandExitCode.NEGATIVE
        if report.problems
        else CommandExitCode.OK
    )


@dataclass
class _Report:
    """Prints findings and counts them for the summary."""

    in_json: bool
    quiet: bool
    valid: int = 0
    invalid: int = 0
    skipped: int = 0
    problems: int = 0
    warnings: int = 0
    files_unreadable: int = 0

    def __post_init__(self) -> None:
        self._list: list[Mapping[str, object]] = []

    def add(self, document: Document) -> None:
        problems = sorted(findings(document))
        warnings = [finding for finding in problems if finding.severity == "warning"]
        for finding in problems:
            if not (self.quiet and finding.severity == "warning"):
                self._print(finding)
        self.problems += len(problems) - len(warnings)
        self.warnings += len(warnings)
        if len(problems) > len(warnings):
            self.invalid += 1
        elif (kind := classify(document.value)) in {DocumentKind.JOB, DocumentKind.SWEEP}:
            self.valid += 1
        else:
            self.skipped += 1
            if kind is DocumentKind.TFJOB and not self.quiet:
                line = document.locate("kind").line
                message(
                    f"{document.source}:{line}: a TFJob; `tfdist convert {document.source}` converts it to a TFDistJob"
                )

    def add_unreadable(self, error: DocumentError) -> None:
        self.files_unreadable += 1
        if self.in_json:
            line, column = error.position or (None, None)
            place = {"file": error.source, "line": line, "column": column}
            rest = {"document": None, "path": "", "message": error.message, "severity": "error"}
            self._list.append({**place, **rest})
        message(error)

    def finish(self) -> None:
        if self.in_json:
            write_json_document(sys.stdout, self._list)
        if not self.quiet:
            message(self._summary())

    def _print(self, finding: Finding) -> None:
        if self.in_json:
            self._list.append(finding._asdict())
        else:
            finding.print(sys.stdout)

    def _summary(self) -> str:
        jobs = self.valid + self.invalid
        parts = []
        if self.problems:
            parts.append(f"{count(self.problems, 'problem')} in {self.invalid} of {count(jobs, 'document')}")
        elif jobs:
            parts.append(f"{count(jobs, 'document')} {'is' if jobs == 1 else 'are'} valid")
        elif not self.files_unreadable:
            parts.append("no TFDistJob or TFDistSweep found")
        if self.warnings:
            parts.append(count(self.warnings, "warning"))
        if self.skipped:
            parts.append(f"{count(self.skipped, 'document')} of other kinds skipped")
        if self.files_unreadable:
            parts.append(f"{count(self.files_unreadable, 'file')} could not be read")
        return "; ".join(parts)
