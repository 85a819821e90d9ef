"""Selects the valid jobs of a file, for commands that process jobs."""

import sys

from tfdist.cli import documents
from tfdist.cli.document_kind import DocumentKind, UnknownKind, classify
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError, DocumentError
from tfdist.cli.findings import errors
from tfdist.cli.output import message


def read(path: str) -> list[Document]:
    """Return all documents of a file or folder.

    Raises:
        CommandError: a file cannot be read.
    """
    unreadable: list[DocumentError] = []
    found = list(documents.read_all([path], unreadable.append))
    if unreadable:
        raise CommandError("\n".join(map(str, unreadable)))
    return found


def select(found: list[Document], path: str, purpose: str) -> list[Document]:
    """Return the jobs among documents if all are valid; otherwise print the errors and return none.

    Args:
        found: the documents.
        path: the file or folder that they come from.
        purpose: verb for the message if there is no job, such as `render`.
    """
    jobs = unchecked(found, path, purpose)
    invalid = [each for document in jobs for each in errors(document)]
    for each in invalid:
        each.print(sys.stderr)
    return [] if invalid else jobs


def unchecked(found: list[Document], path: str, purpose: str) -> list[Document]:
    """Return the jobs among documents, valid or not; print a message if there is none.

    Args:
        found: the documents.
        path: the file or folder that they come from.
        purpose: verb for the message if there is no job, such as `render`.
    """
    jobs = [document for document in found if _is_job(document)]
    if not jobs:
        kinds = ", ".join(dict.fromkeys(str(document.value["kind"]) for document in found)) or "no document"
        advice = "; `tfdist convert` converts a TFJob to a TFDistJob" if "TFJob" in kinds else ""
        message(f"{path}: no TFDistJob to {purpose}; found {kinds}{advice}")
    return jobs


def only(jobs: list[Document], path: str, purpose: str) -> Document:
    """Return the only one of the jobs of a file.

    Raises:
        CommandError: there are several.
    """
    if len(jobs) > 1:
        names = ", ".join(str(document.value["metadata"].get("name")) for document in jobs)
        raise CommandError(f"{path}: contains {len(jobs)} jobs ({names}); move the one to {purpose} to its own file")
    return jobs[0]


def _is_job(document: Document) -> bool:
    """Return whether a document is a TFDistJob, or one with a misspelled kind, which `errors` reports."""
    try:
        return classify(document.value) is DocumentKind.JOB
    except UnknownKind:
        return True
