"""Errors and warnings about fields of documents, with their positions in the file."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TextIO

from tfdist import validation
from tfdist.cli.document_kind import DocumentKind, UnknownKind, classify
from tfdist.cli.documents import Document
from tfdist.cli.output import coloured, one_line, write_lines
from tfdist.cli.yaml_hints import as_written, converted_keys
from tfdist.validation import FieldError, ValidationFailed

Severity = Literal["error", "warning"]


class Finding(NamedTuple):
    """An error or a warning about a field of a document."""

    file: str
    line: int
    column: int
    document: int
    path: str
    message: str
    severity: Severity = "error"
    """`error`: the job is rejected; `warning`: it is accepted, but probably does not do what its author expects."""

    def print(self, stream: TextIO) -> None:
        """Write one line in the form that editors and grep read, FILE:LINE: PATH: MESSAGE."""
        path = coloured(f"{self.path}:", stream) + " " if self.path else ""
        kind = "warning: " if self.severity == "warning" else ""
        write_lines([f"{self.file}:{self.line}: {kind}{path}{one_line(self.message)}"], stream)


def finding(document: Document, path: str, message: str, severity: Severity = "error") -> Finding:
    """Return a finding about the field `path` with its position."""
    line, column = document.locate(path)
    return Finding(document.source, line, column, document.number, path, message, severity)


def findings(document: Document) -> Iterator[Finding]:
    """Yield the errors of a document, and warnings; most warnings are about valid jobs only."""
    try:
        if check := _CHECKS.get(classify(document.value)):
            for path, message in converted_keys(document):
                yield finding(document, path, message, "warning")
            for warning in check(document.value):
                yield finding(document, warning.path, warning.message, "warning")
    except UnknownKind as error:
        yield finding(document, error.path, error.message)
    except ValidationFailed as failed:
        for problem in failed.problems:
            yield finding(document, problem.path, as_written(document, problem.path, problem.message))


def _check_job(manifest: Mapping[str, Any]) -> list[FieldError]:
    """Return the warnings about a job.

    Raises:
        ValidationFailed: it has errors.
    """
    return validation.warnings(validation.parse(manifest))


def _check_sweep(manifest: Mapping[str, Any]) -> list[FieldError]:
    """Return the warnings about a sweep.

    Raises:
        ValidationFailed: it has errors.
    """
    from tfdist.validation.sweep import parse_sweep, sweep_warnings  # noqa: PLC0415  for the start of other commands

    return sweep_warnings(parse_sweep(manifest))


_CHECKS: Final = {DocumentKind.JOB: _check_job, DocumentKind.SWEEP: _check_sweep}


def errors(document: Document) -> Iterator[Finding]:
    """Yield the errors of a TFDistJob or TFDistSweep, or of a document with a misspelled apiVersion or kind."""
    yield from (item for item in findings(document) if item.severity == "error")
