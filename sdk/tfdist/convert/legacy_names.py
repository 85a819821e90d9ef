"""Finds names in pods that only the training-operator provides: addresses of replicas, and labels."""

import re
from collections.abc import Iterable

from tfdist.contract import TF_PORT_NAME
from tfdist.convert.replicas import ROLES, Replicas
from tfdist.convert.result import AddNote
from tfdist.convert.texts import texts
from tfdist.convert.tfjob import PORT_NAME
from tfdist.messages import join_path


def note_legacy_names(job_name: str, replicas: Iterable[Replicas], add_note: AddNote) -> None:
    """Add a note at the first text in a pod template with a name that TFDist does not provide."""
    types = "|".join(ROLES)
    address = rf"\b{re.escape(job_name)}-({types})-" if job_name else r"(?!)"
    old = re.compile(rf"{address}|training\.kubeflow\.org/|tf-?replica|tf-job-name|^kubeflow\.org$", re.IGNORECASE)
    for r in replicas:
        for location, text in texts(r.template, ("template",)):
            if match := old.search(text):
                add_note(f"{r.path}.{join_path(location)}", _message(match.group(), job_name))
                return


def note_port_name(replicas: Iterable[Replicas], add_note: AddNote) -> None:
    """Add a note at the first text with the name of TensorFlow's port that the conversion does not rename."""
    for r in replicas:
        for location, text in texts(r.template, ("template",)):
            if PORT_NAME in text and location[-1] not in {"name", "port"}:
                message = f"contains {PORT_NAME!r}, the former name of TensorFlow's port; it is {TF_PORT_NAME!r} now"
                add_note(f"{r.path}.{join_path(location)}", message)
                return


def _message(name: str, job_name: str) -> str:
    job = job_name or "<job>"
    return (
        f"contains {name!r}, which no longer exists: replicas have addresses worker-0.{job}, ps-0.{job} and so on, "
        "pods have the labels tfdist.dev/job, tfdist.dev/role and tfdist.dev/index; correct it here and elsewhere"
    )
