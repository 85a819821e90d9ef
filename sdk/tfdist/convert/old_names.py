"""Finds names in pods that only the peer gives: addresses of replicas, and labels."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tfdist.convert.replicas import ROLES, Replicas
from tfdist.convert.result import Remark
from tfdist.validation.wording import path_of


def remark_old_names(job_name: str, replicas: Iterable[Replicas], remark: Remark) -> None:
    """Say, once a job and where it is first seen, that a pod mentions a name which TFDist does not give."""
    types = "|".join(ROLES)
    address = rf"\b{re.escape(job_name)}-({types})-" if job_name else r"(?!)"
    old = re.compile(rf"{address}|training\.kubeflow\.org/|tf-?replica|tf-job-name", re.IGNORECASE)
    for r in replicas:
        for location, text in _texts(r.template, ("template",)):
            if found := old.search(text):
                remark(f"{r.path}.{path_of(location)}", _message(found.group(), job_name))
                return


def _message(found: str, job_name: str) -> str:
    job = job_name or "<job>"
    return (
        f"mentions {found!r}, which no longer exists: replicas are found as worker-0.{job}, ps-0.{job} and so on, pods "
        "carry the labels tfdist.dev/job, tfdist.dev/role and tfdist.dev/index; correct it here and elsewhere"
    )


def _texts(value: Any, location: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every text in a JSON value, keys too, with its location."""
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _texts(item, (*location, i))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*location, key), key
            yield from _texts(item, (*location, key))
