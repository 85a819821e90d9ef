"""Finds names in pods that only the training-operator provides: addresses of replicas, and labels."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tfdist.convert.replicas import ROLES, Replicas
from tfdist.convert.result import AddNote
from tfdist.messages import join_path


def note_legacy_names(job_name: str, replicas: Iterable[Replicas], add_note: AddNote) -> None:
    """Add a note at the first text in a pod template with a name that TFDist does not provide."""
    types = "|".join(ROLES)
    address = rf"\b{re.escape(job_name)}-({types})-" if job_name else r"(?!)"
    old = re.compile(rf"{address}|training\.kubeflow\.org/|tf-?replica|tf-job-name", re.IGNORECASE)
    for r in replicas:
        for location, text in _texts(r.template, ("template",)):
            if found := old.search(text):
                add_note(f"{r.path}.{join_path(location)}", _message(found.group(), job_name))
                return


def _message(found: str, job_name: str) -> str:
    job = job_name or "<job>"
    return (
        f"contains {found!r}, which no longer exists: replicas have addresses worker-0.{job}, ps-0.{job} and so on, "
        "pods have the labels tfdist.dev/job, tfdist.dev/role and tfdist.dev/index; correct it here and elsewhere"
    )


def _texts(value: Any, location: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every string in a JSON value, also keys, with its location."""
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _texts(item, (*location, i))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*location, key), key
            yield from _texts(item, (*location, key))
