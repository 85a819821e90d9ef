"""`tfdist validate FILE...`: every mistake in TFDistJobs, with file, line and path, without a cluster."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tfdist import validation
from tfdist.cli import command, documents, kinds
from tfdist.cli.documents import Document
from tfdist.cli.errors import DocumentError
from tfdist.cli.kinds import What, WrongKind
from tfdist.cli.output import Finding, count, finding, say
from tfdist.validation import InvalidJob

DETAILS = """\
Prints a line for each problem, and a summary on standard error:

  FILE:LINE: PATH: MESSAGE

Documents of other kinds are passed over. Exit code: 0 all are valid, 1 problems, 2 a file cannot be read."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    command.add_files(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="print problems only: no hints, no summary")
    command.add_output(parser, "text", "json")


def run(options: argparse.Namespace) -> int:
    """Check the files and return the exit code."""
    report = _Report(in_json=options.output == "json", quiet=options.quiet)
    for document in documents.read_all(options.files, report.unreadable):
        report.look_at(document)
    report.end()
    return 2 if report.files_unreadable else int(report.problems > 0)


def problems(document: Document) -> Iterator[Finding]:
    """Yield what is wrong with a TFDistJob, or with a document that was meant to be one."""
    try:
        if kinds.what(document.value) is What.JOB:
            validation.parse(document.value)
    except WrongKind as error:
        yield finding(document, error.path, error.message)
    except InvalidJob as error:
        for problem in error.problems:
            yield finding(document, problem.path, problem.message)


@dataclass
class _Report:
    """Prints what is found, and counts it."""

    in_json: bool
    quiet: bool
    valid: int = 0
    invalid: int = 0
    skipped: int = 0
    problems: int = 0
    files_unreadable: int = 0

    def __post_init__(self) -> None:
        self._list: list[Mapping[str, object]] = []

    def look_at(self, document: Document) -> None:
        found = sorted(problems(document))
        for each in found:
            self._tell(each)
        self.problems += len(found)
        if found:
            self.invalid += 1
        elif (kind := kinds.what(document.value)) is What.JOB:
            self.valid += 1
        else:
            self.skipped += 1
            if kind is What.TFJOB and not self.quiet:
                line = document.locate("kind").line
                say(f"{document.source}:{line}: a TFJob; `tfdist convert {document.source}` makes a TFDistJob of it")

    def unreadable(self, error: DocumentError) -> None:
        self.files_unreadable += 1
        if self.in_json:
            line, column = error.position or (None, None)
            place = {"file": error.source, "line": line, "column": column}
            self._list.append({**place, "document": None, "path": "", "message": error.message})
        say(error)

    def end(self) -> None:
        if self.in_json:
            print(json.dumps(self._list, indent=2, ensure_ascii=False))
        if not self.quiet:
            say(self._summary())

    def _tell(self, found: Finding) -> None:
        if self.in_json:
            self._list.append(found._asdict())
        else:
            found.print(sys.stdout)

    def _summary(self) -> str:
        jobs = self.valid + self.invalid
        parts = []
        if self.problems:
            parts.append(f"{count(self.problems, 'problem')} in {self.invalid} of {count(jobs, 'document')}")
        elif jobs:
            parts.append(f"{count(jobs, 'document')} {'is' if jobs == 1 else 'are'} valid")
        elif not self.files_unreadable:
            parts.append("no TFDistJob found")
        if self.skipped:
            parts.append(f"{count(self.skipped, 'document')} of other kinds skipped")
        if self.files_unreadable:
            parts.append(f"{count(self.files_unreadable, 'file')} could not be read")
        return "; ".join(parts)
