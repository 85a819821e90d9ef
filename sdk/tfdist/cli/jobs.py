"""What a file contains for a command: its valid jobs or sweeps, and the ConfigMaps that belong to them."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tfdist.api.resource import KIND
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.cli import documents
from tfdist.cli.documents import STDIN, Document, DocumentKind, UnknownKind, classify
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


def config_maps(inputs: Sequence[Document], namespace: str) -> dict[str, Mapping[str, Any]]:
    """Return the ConfigMaps for a job of `namespace`, by name.

    Raises:
        CommandError: a file of a kustomization cannot be read.
    """
    result: dict[str, Mapping[str, Any]] = {}
    for document in inputs:
        kind, value = document.value.get("kind"), document.value
        if kind == "ConfigMap":
            metadata = value.get("metadata") or {}
            if metadata.get("namespace", namespace) == namespace:
                result[str(metadata.get("name"))] = value
        elif kind == "Kustomization":
            for generator in value.get("configMapGenerator") or ():
                result[str(generator.get("name"))] = {"data": _generated(generator, document.source)}
    return result


def config_map_manifests(inputs: Sequence[Document], namespace: str) -> list[dict[str, Any]]:
    """Return the manifests of the ConfigMaps for a job of `namespace`, with the content of each.

    Raises:
        CommandError: a file of a kustomization cannot be read.
    """
    return [_config_map(name, value) for name, value in config_maps(inputs, namespace).items()]


def _config_map(name: str, config_map: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": name} | dict(config_map.get("metadata") or {})
    return {key: item for key, item in config_map.items() if item is not None} | {"metadata": metadata}


def _generated(generator: Mapping[str, Any], source: str) -> dict[str, str]:
    """Return the data of a ConfigMap that a kustomization generates from files and literals."""
    folder = Path() if source == STDIN else Path(source).parent
    data = {}
    for entry in generator.get("files") or ():
        key, _, path = entry.rpartition("=")
        try:
            data[key or Path(path).name] = (folder / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise CommandError(f"{source}: {folder / path} of configMapGenerator cannot be read: {reason}") from None
    return data | dict(literal.split("=", 1) for literal in generator.get("literals") or () if "=" in literal)
