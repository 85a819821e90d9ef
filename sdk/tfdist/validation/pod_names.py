"""Finds texts of containers with the pod's own name, which is another one in each attempt of a job.

A container has it in variables that refer to `metadata.name`, and in variables whose values contain those. A folder
named after the pod is empty after a restart.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tfdist import messages
from tfdist.api.v1 import TFDistJob
from tfdist.contract import Role
from tfdist.render.names import INDEX_LABEL, JOB_LABEL, ROLE_LABEL
from tfdist.render.template import all_containers
from tfdist.validation.errors import FieldError
from tfdist.validation.field_source import source_path

Location = tuple[str | int, ...]

POD_NAME_FIELD: Final = "metadata.name"
STABLE_NAME: Final = (
    f"use a name that stays, such as $(JOB)-$(ROLE)-$(INDEX), with variables whose fieldRef has the fieldPath "
    f"metadata.labels['{JOB_LABEL}'], metadata.labels['{ROLE_LABEL}'] and metadata.labels['{INDEX_LABEL}']"
)
"""The remedy: variables by which a replica has the same folder in each attempt."""

_REFERENCE: Final = re.compile(r"\$\$|\$\(([^()\s]+)\)|\$\{?([A-Za-z_]\w*)")
"""A `$$`, which escapes, a reference that Kubernetes expands, or one that a shell does."""
_WORD: Final = re.compile(r"[^\s'\";|&<>]+")
_NO_FOLDER: Final = re.compile(r"https?://|(?:^|/)pods?/")
_NAMES_FOLDER: Final = re.compile(r"(?i)(?:dir|directory|folder|path|ckpt|checkpoints?|output)=")


class PodNameUse(NamedTuple):
    """A text of a container with the pod's name: where it is in the container, the variable, if it names a folder."""

    location: Location
    text: str
    variable: str
    is_folder: bool


def pod_name_uses(container: Mapping[str, Any]) -> Iterator[PodNameUse]:
    """Yield the texts of a container that contain the name of its pod, each once."""
    names: set[str] = set()
    for i, each in enumerate(container.get("env", ())):
        text = each.get("value") or ""
        variable = next((name for name in _references(text, in_shell=False) if name in names), None)
        if variable:
            yield PodNameUse(("env", i, "value"), text, variable, _is_folder(text, variable))
        (names.add if variable or _refers_to_name(each) else names.discard)(each["name"])
    for location, text in _words(container):
        in_mount = location[0] == "volumeMounts"
        if variable := next((name for name in _references(text, in_shell=not in_mount) if name in names), None):
            yield PodNameUse(location, text, variable, in_mount or _is_folder(text, variable))


def unused_pod_names(container: Mapping[str, Any]) -> Iterator[Location]:
    """Yield the variables with the pod's name that only the program reads, by their locations in the container."""
    used = {use.variable for use in pod_name_uses(container)}
    in_effect = {variable["name"]: (i, variable) for i, variable in enumerate(container.get("env", ()))}
    for i, variable in in_effect.values():
        if _refers_to_name(variable) and variable["name"] not in used:
            yield ("env", i)


def pod_name_warnings(job: TFDistJob, role: Role, template: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield the first folder of each container that is named after the pod, with the number of the others."""
    for container in all_containers(template):
        folders = [use for use in pod_name_uses(container) if use.is_folder]
        if folders:
            more = f"; {len(folders) - 1} more in this container" if folders[1:] else ""
            text = (
                f"contains the name of the pod, $({folders[0].variable}), which ends in -r1, -r2 and so on after "
                f"restarts: a restarted replica does not find what it has written there; {STABLE_NAME}{more}"
            )
            path = source_path(job, role, container["name"], partial(_place, folders[0].text))
            yield FieldError(path, text)


def _words(container: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
    """Yield the paths of mounts, and the words of the command and of the commands of hooks."""
    for i, mount in enumerate(container.get("volumeMounts", ())):
        yield ("volumeMounts", i, "subPathExpr"), mount.get("subPathExpr") or ""
    for name in ("command", "args"):
        yield from (((name, i), word) for i, word in enumerate(container.get(name, ())))
    for hook, handler in container.get("lifecycle", {}).items():
        action = handler.get("exec", {}) if isinstance(handler, dict) else {}
        words: Iterable[str] = action.get("command", ())
        yield from ((("lifecycle", hook, "exec", "command", i), word) for i, word in enumerate(words))


def _refers_to_name(variable: Mapping[str, Any]) -> bool:
    source = variable.get("valueFrom") or {}
    return (source.get("fieldRef") or {}).get("fieldPath") == POD_NAME_FIELD


def _references(text: str, *, in_shell: bool) -> Iterator[str]:
    """Yield the variables that a text refers to."""
    for expanded, of_shell in _REFERENCE.findall(text):
        if expanded or (in_shell and of_shell):
            yield expanded or of_shell


def _is_folder(text: str, variable: str) -> bool:
    """Return whether a word with a reference is a path, or the value of an option for one."""
    matching = (word for word in _WORD.findall(text) if variable in _references(word, in_shell=True))
    return any(
        _NAMES_FOLDER.search(word) or ("/" in word and not _NO_FOLDER.search(word.rpartition("=")[2]))
        for word in matching
    )


def _place(text: str, container: Mapping[str, Any]) -> str | None:
    """Return the path of a text in the container of one level of the manifest."""
    values = ((("env", i, "value"), each.get("value")) for i, each in enumerate(container.get("env", ())))
    found = (location for location, each in (*_words(container), *values) if each == text)
    return next((messages.child_path("", *location) for location in found), None)
