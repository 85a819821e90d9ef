"""The jobs of a file, for commands that do something with them."""

import sys

from tfdist.cli import documents, kinds
from tfdist.cli.documents import Document
from tfdist.cli.errors import CommandError, DocumentError
from tfdist.cli.kinds import What
from tfdist.cli.output import say
from tfdist.cli.validate import problems


def read(path: str) -> list[Document]:
    """Return all documents of a file.

    Raises:
        CommandError: the file, or one of a folder, cannot be read.
    """
    unreadable: list[DocumentError] = []
    found = list(documents.read_all([path], unreadable.append))
    if unreadable:
        raise CommandError("\n".join(map(str, unreadable)))
    return found


def valid(found: list[Document], path: str, purpose: str) -> list[Document]:
    """Return the jobs among documents, or none after saying what is wrong with them, or that there is none.

    Args:
        found: the documents.
        path: where they come from.
        purpose: what was to be done with a job, such as `render`.
    """
    jobs = [document for document in found if _concerns(document)]
    if not jobs:
        kinds_found = ", ".join(dict.fromkeys(str(document.value["kind"]) for document in found)) or "nothing"
        advice = "; `tfdist convert` makes a TFDistJob of a TFJob" if "TFJob" in kinds_found else ""
        say(f"{path}: no TFDistJob to {purpose}, but {kinds_found}{advice}")
    mistakes = [each for document in jobs for each in problems(document)]
    for each in mistakes:
        each.print(sys.stderr)
    return [] if mistakes else jobs


def _concerns(document: Document) -> bool:
    try:
        return kinds.what(document.value) is What.JOB
    except kinds.WrongKind:
        return True
