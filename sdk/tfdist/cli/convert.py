"""`tfdist convert FILE...`: TFJobs of the Kubeflow training operator as TFDistJobs, saying what changes meaning."""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tfdist import validation
from tfdist.cli import command, documents, kinds, manifests
from tfdist.cli.documents import Document
from tfdist.cli.errors import DocumentError
from tfdist.cli.kinds import What, WrongKind
from tfdist.cli.output import Finding, finding, say
from tfdist.convert import CannotConvert, convert
from tfdist.validation import InvalidJob

DETAILS = """\
Prints every document of the files in order: TFJobs converted, with notes as comments, all others as they are.
The notes go to standard error too: FILE:LINE: PATH: MESSAGE, with lines and paths of the TFJob.
Exit code: 0, 1 a TFJob could not be converted or its result is invalid, 2 a file cannot be read."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    command.add_files(parser)
    command.add_output(parser, "yaml", "json")


def run(options: argparse.Namespace) -> int:
    """Print the converted documents and return the exit code."""
    unreadable: list[DocumentError] = []
    results = [_result(each) for each in documents.read_all(options.files, unreadable.append)]
    if options.output == "json":
        manifests.write_json(sys.stdout, [r.manifest for r in results if r.manifest is not None])
    else:
        manifests.write_yaml(sys.stdout, [(r.manifest, list(r.comments())) for r in results])
    # after the result, where a terminal shows both
    sys.stdout.flush()
    for note in (note for result in results for note in result.notes):
        note.print(sys.stderr)
    for error in unreadable:
        say(error)
    return 2 if unreadable else int(any(result.failed for result in results))


@dataclass
class _Result:
    """What became of a document; without a manifest, nothing."""

    manifest: dict[str, Any] | None
    heading: str = ""
    failed: bool = False
    notes: list[Finding] = field(default_factory=list)

    def comments(self) -> Iterator[str]:
        """Yield what stands above the manifest, in a file where lines and colours of the original mean nothing."""
        if self.notes:
            yield self.heading
        for note in self.notes:
            path = f"{note.path}: " if note.path else ""
            yield f"- {path}{note.message}"


def _result(document: Document) -> _Result:
    try:
        if kinds.what(document.value) is not What.TFJOB:
            return _Result(document.value)
    except WrongKind as error:
        return _failure(document, [(error.path, error.message)])
    try:
        conversion = convert(document.value)
    except CannotConvert as error:
        return _failure(document, [(problem.path, problem.message) for problem in error.problems])
    notes = [finding(document, note.path, note.message) for note in conversion.notes]
    mistakes = [finding(document, "", text) for text in _mistakes(conversion.manifest)]
    heading = f"Converted from {_name(document)}. What changes:"
    return _Result(conversion.manifest, heading, bool(mistakes), notes + mistakes)


def _failure(document: Document, problems: list[tuple[str, str]]) -> _Result:
    notes = [finding(document, path, message) for path, message in problems]
    return _Result(None, f"{_name(document)} could not be converted:", failed=True, notes=notes)


def _mistakes(manifest: dict[str, Any]) -> Iterator[str]:
    """Yield why the result of a conversion would be refused."""
    try:
        validation.parse(manifest)
    except InvalidJob as error:
        for problem in error.problems:
            yield f"the TFDistJob made of it is invalid, correct it there: {problem}"


def _name(document: Document) -> str:
    metadata = document.value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{document.value.get('kind', 'document')} {name or document.number}"
