"""Finds names in pods that only the training-operator provides: addresses, constant names and labels."""

import re
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Final

from tfdist.contract import TF_PORT_NAME
from tfdist.convert.replicas import ROLES, Replicas
from tfdist.convert.result import AddNote, Json
from tfdist.convert.texts import Location, texts, value_at
from tfdist.convert.tfjob import PORT_NAME
from tfdist.messages import join_path
from tfdist.render.names import INDEX_LABEL, JOB_LABEL, ROLE_LABEL
from tfdist.validation.pod_names import POD_NAME_FIELD, STABLE_NAME, pod_name_uses, unused_pod_names

_OLD_JOB_LABEL: Final = "job-name"
_ANOTHER_NAME: Final = (
    "the name of the pod, which a TFJob keeps after a restart and a TFDistJob does not (it then ends in -r1, -r2 and "
    "so on), so that a folder named after it is empty in each attempt"
)


_LABEL_FIELD: Final = re.compile(
    r"metadata\.labels\['(?P<label>(?P<prefix>training\.kubeflow\.org/|tf-)?(?P<name>job-name|replica-type|replica-index))'\]"
)
_LABELS: Final = {"job-name": JOB_LABEL, "replica-type": ROLE_LABEL, "replica-index": INDEX_LABEL}
"""Label of the training-operator without its prefix -> label of TFDist with the same values."""


def with_new_labels(replicas: Sequence[Replicas], add_note: AddNote) -> list[Replicas]:
    """Return the replica types with references (`fieldRef`) to the labels of TFDist instead of the former ones.

    Args:
        replicas: the replica types, which are not changed.
        add_note: gets a note for each reference that has changed.
    """
    places = _Places()
    result = []
    for r in replicas:
        template = deepcopy(r.template)
        for location, text in texts(r.template):
            if location[-2:] == ("fieldRef", "fieldPath") and (new := _new_field(text, r.template)):
                value_at(template, location[:-1])["fieldPath"] = new
                places.add(r, location, f"becomes {new}")
        result.append(replace(r, template=template))
    places.add_notes(add_note)
    return result


def _new_field(path: str, template: Json) -> str | None:
    """Return the new path of a field that refers to a label of the training-operator; None for another one."""
    match = _LABEL_FIELD.fullmatch(path)
    own_labels = template.get("metadata", {}).get("labels", {})
    if not match or (not match["prefix"] and match["label"] in own_labels):
        return None
    return f"metadata.labels['{_LABELS[match['name']]}']"


def note_legacy_names(job_name: str, replicas: Iterable[Replicas], add_note: AddNote) -> None:
    """Add a note at each text in a pod template with a name that TFDist does not provide."""
    types = "|".join(ROLES)
    address = rf"\b{re.escape(job_name)}-({types})-" if job_name else r"(?!)"
    labels = r"training\.kubeflow\.org/[\w-]*|tf-?replica[\w-]*|tf-job-name|^kubeflow\.org$"
    old = re.compile(f"{address}|{labels}", re.IGNORECASE)
    places = _Places()
    for r in replicas:
        for location, text in texts(r.template):
            if match := old.search(text):
                places.add(r, location, _message(match.group(), job_name))
            elif job_name and location[-1] == _OLD_JOB_LABEL and text == job_name:
                places.add(r, location, _message(_OLD_JOB_LABEL, job_name))
    places.add_notes(add_note)


class _Places:
    """Notes on places of templates, each once for all replica types that have it at the same place."""

    def __init__(self) -> None:
        self._places: dict[tuple[Location, str], list[Replicas]] = {}
        self._found: set[tuple[str, Location]] = set()

    def add(self, replicas: Replicas, location: Location, message: str) -> None:
        """Add a place of the template of a replica type; of a key and its value, which have one place, the first."""
        if (replicas.key, location) not in self._found:
            self._found.add((replicas.key, location))
            self._places.setdefault((location, message), []).append(replicas)

    def add_notes(self, add_note: AddNote) -> None:
        """Add a note at each place."""
        for (location, message), (first, *others) in self._places.items():
            end = f"; also in {', '.join(r.key for r in others)}" if others else ""
            add_note(f"{first.path}.{join_path(('template', *location))}", f"{message}{end}")


def note_pod_names(replicas: Sequence[Replicas], add_note: AddNote) -> None:
    """Add a note at each text with the name of the pod, and at each field by which only the program reads it."""
    places = _Places()
    for r in replicas:
        for location, message in _pod_names(r.template):
            places.add(r, location, message)
    places.add_notes(add_note)


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
        "pods have the labels tfdist.dev/job, tfdist.dev/role and tfdist.dev/index; correct it here"
    )
