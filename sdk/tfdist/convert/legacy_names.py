"""Finds names in pods that only the training-operator provides: addresses of replicas, and labels."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tfdist.contract import TF_PORT_NAME
from tfdist.convert.replicas import REPLICA_TYPES, ROLES, Replicas
from tfdist.convert.result import AddNote, Json
from tfdist.convert.texts import Location, texts
from tfdist.convert.tfjob import PORT_NAME
from tfdist.messages import join_path
from tfdist.validation.pod_names import POD_NAME_FIELD, STABLE_NAME, pod_name_uses, unused_pod_names

_ANOTHER_NAME: Final = (
    "the name of the pod, which a TFJob keeps after a restart and a TFDistJob does not (it then ends in -r1, -r2 and "
    "so on), so that a folder named after it is empty in each attempt"
)


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


def note_pod_names(replicas: Sequence[Replicas], add_note: AddNote) -> None:
    """Add a note at each text with the name of the pod, and at each field by which only the program reads it."""
    places: dict[tuple[Location, str], list[str]] = {}
    for r in replicas:
        for location, message in _pod_names(r.template):
            places.setdefault((location, message), []).append(r.key)
    for (location, message), (first, *others) in places.items():
        path = f"{REPLICA_TYPES}.{first}.{join_path(('template', *location))}"
        add_note(path, f"{message}{also_in(others)}")


def _pod_names(template: Json) -> Iterator[tuple[Location, str]]:
    """Yield the location and the message of each use of the pod's name in a template."""
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(template["spec"].get(kind, ())):
            place = ("spec", kind, i)
            for use in pod_name_uses(container):
                yield (*place, *use.location), f"$({use.variable}) is {_ANOTHER_NAME}; for state, {STABLE_NAME}"
            for location in unused_pod_names(container):
                yield (*place, *location), f"is {_ANOTHER_NAME}; if the program names a folder after it, {STABLE_NAME}"
    for location, text in texts(template["spec"].get("volumes", []), ("spec", "volumes")):
        if text == POD_NAME_FIELD and location[-2:] == ("fieldRef", "fieldPath"):
            yield location, f"is {_ANOTHER_NAME}; if the program names a folder after it, {STABLE_NAME}"


def also_in(keys: Sequence[str]) -> str:
    """Return the end of a note that applies at the same place to other replica types."""
    return f"; also in {', '.join(keys)}" if keys else ""


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
