"""Finds names in pods that only the peer gives: addresses of replicas, and labels."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tfdist.convert.replicas import ROLES, Replicas
from tfdist.convert.result import Remark


def remark_old_names(job_name: str, replicas: Iterable[Replicas], remark: Remark) -> None:
    """Say, once a job and where it is first seen, that a pod mentions a name which TFDist does not give."""
    types = "|".join(ROLES)
    address = rf"\b{re.escape(job_name)}-({types})-" if job_name else r"(?!)"
    old = re.compile(rf"{address}|training\.kubeflow\.org/|tf-?replica|tf-job-name", re.IGNORECASE)
    for r in replicas:
        for path, text in _texts(r.template, f"{r.path}.template"):
            if found := old.search(text):
                remark(path, _message(found.group(), job_name))
                return


def _message(found: str, job_name: str) -> str:
    job = job_name or "<job>"
    return (
        f"mentions {found!r}, which no longer exists: replicas are found as worker-0.{job}, ps-0.{job} and so on, pods "
        "carry the labels tfdist.dev/job, tfdist.dev/role and tfdist.dev/index; correct it here and elsewhere"
    )


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield every text in a JSON value, keys too, with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _texts(item, f"{path}[{i}]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"{path}.{key}", key
            yield from _texts(item, f"{path}.{key}")
