"""Errors and warnings about fields of documents, with their positions in the file.

Text such as `y`, `no` and `010` that kubectl reads as a boolean or a number gets a hint to write it in quotes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TextIO

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from tfdist import messages, validation
from tfdist.cli.documents import Document, DocumentKind, UnknownKind, classify
from tfdist.cli.output import coloured, one_line, write_lines
from tfdist.cli.yaml_loader import is_unquoted, key_text, plain
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


def as_written(document: Document, path: str, message: str) -> str:
    """Return the error `message` about the field `path` with the scalar as written, if a string has to be quoted."""
    _, marker, advice = message.partition(messages.MUST_BE_STRING)
    node = document.node(path) if marker else None
    if not isinstance(node, ScalarNode) or not is_unquoted(node) or not node.value:
        return message
    return f"{node.value} is {_kind(node.value)} in YAML; write {messages.format_value(node.value)}{advice}"


def converted_keys(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the path and a warning for each key that kubectl reads as other text than written."""
    pending: list[tuple[tuple[str | int, ...], Node | None]] = [((), document.node(""))]
    visited: set[int] = set()
    while pending:
        location, node = pending.pop()
        if id(node) in visited:  # an alias
            continue
        visited.add(id(node))
        if isinstance(node, SequenceNode):
            pending += [((*location, index), item) for index, item in enumerate(node.value)]
        elif isinstance(node, MappingNode):
            for key, value in node.value:
                text = key_text(key)
                place = (*location, text)
                pending.append((place, value))
                if is_unquoted(key) and text != key.value and id(key) not in visited:
                    visited.add(id(key))  # a mapping that another merges
                    advice = f'kubectl reads it as "{text}"; write {messages.format_value(key.value)}'
                    yield messages.join_path(place), f"the key {key.value} is {_kind(key.value)} in YAML, {advice}"


def _kind(text: str) -> str:
    value = plain(text)
    return "null" if value is None else "a boolean" if isinstance(value, bool) else "a number"
