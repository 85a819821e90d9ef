"""Selects the valid jobs or sweeps of a file, for commands that process them."""

import sys
from typing import Final

from tfdist.api.resource import KIND
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.cli import documents
from tfdist.cli.documents import Document, DocumentKind, UnknownKind, classify
from tfdist.cli.errors import CommandError, DocumentError
from tfdist.cli.findings import errors
from tfdist.cli.output import message

_NAMES: Final = {DocumentKind.JOB: KIND, DocumentKind.SWEEP: SWEEP_KIND}
_CREATED_TOO: Final = frozenset({"ConfigMap", "Kustomization"})
_ADVICE: Final = {
    "TFJob": "`tfdist convert` converts a TFJob to a TFDistJob",
    SWEEP_KIND: "`tfdist sweep run` creates a TFDistSweep",
    KIND: "`tfdist submit` creates a TFDistJob",
}
"""Advice by the kind that was found instead."""


def read(path: str) -> list[Document]:
    """Return all documents of a file or folder.

    Raises:
        CommandError: a file cannot be read.
    """
    unreadable: list[DocumentError] = []
    inputs = list(documents.read_all([path], unreadable.append))
    if unreadable:
        raise CommandError("\n".join(map(str, unreadable)))
    return inputs


def select(inputs: list[Document], path: str, purpose: str) -> list[Document]:
    """Return the jobs among documents if all are valid; otherwise print the errors and return none.

    Args:
        inputs: the documents.
        path: the file or folder that they come from.
        purpose: verb for the message if there is no job, such as `render`.
    """
    jobs = unchecked(inputs, path, purpose)
    invalid = [problem for document in jobs for problem in errors(document)]
    for problem in invalid:
        problem.print(sys.stderr)
    return [] if invalid else jobs


def unchecked(inputs: list[Document], path: str, purpose: str, kind: DocumentKind = DocumentKind.JOB) -> list[Document]:
    """Return the jobs among documents, or with `kind` the sweeps, valid or not; print a message if there are none.

    Args:
        inputs: the documents.
        path: the file or folder that they come from.
        purpose: verb for the message if there is no job, such as `render`.
        kind: of the documents to return.
    """
    selected = [document for document in inputs if _is_of(document, kind)]
    if not selected:
        kinds = list(dict.fromkeys(str(document.value["kind"]) for document in inputs)) or ["no document"]
        advice = "".join(f"; {text}" for name, text in _ADVICE.items() if name in kinds)
        message(f"{path}: no {_NAMES[kind]} to {purpose}; found {', '.join(kinds)}{advice}")
    return selected


def report_not_created(inputs: list[Document], kind: str) -> None:
    """Print a message about each document that the creation of one of `kind` does not create with it."""
    for document in inputs:
        other = document.value.get("kind")
        if other not in {kind, *_CREATED_TOO}:
            name = (document.value.get("metadata") or {}).get("name")
            message(f"{document.source}:{document.locate('kind').line}: {other} {name} is not created: kubectl apply")


def only(jobs: list[Document], path: str, purpose: str, noun: str = "job") -> Document:
    """Return the only one of the jobs of a file, or of what `noun` names.

    Raises:
        CommandError: there are several.
    """
    if len(jobs) > 1:
        names = ", ".join(str(document.value["metadata"].get("name")) for document in jobs)
        raise CommandError(f"{path}: contains {len(jobs)} {noun}s ({names}); move the one to {purpose} to its own file")
    return jobs[0]


def _is_of(document: Document, kind: DocumentKind) -> bool:
    """Return whether a document is of a kind, or of a misspelled one, which `errors` reports."""
    try:
        return classify(document.value) is kind
    except UnknownKind:
        return True
