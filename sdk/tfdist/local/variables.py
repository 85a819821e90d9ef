"""The environment variables of a replica, and `$(NAME)` in its command, as kubelet makes them; pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfdist.local.ports import LOCAL_HOST
from tfdist.local.volumes import contents
from tfdist.validation import Problem

_REFERENCE: Final = re.compile(r"\$(\$|\(([^()\s]+)\))")


@dataclass(frozen=True, slots=True)
class Known:
    """What a variable may come from: the pod's own fields, ConfigMaps of the same FILE, and the user's environment."""

    pod: Mapping[str, Any]
    host: str
    config_maps: Mapping[str, Mapping[str, Any]]
    inherited: Mapping[str, str]


def variables(container: Mapping[str, Any], known: Known) -> tuple[dict[str, str], list[Problem]]:
    """Return the variables that a container names, and what of them cannot be had on this machine.

    A secret is taken from the variable of the same name in the user's environment.
    """
    result: dict[str, str] = {}
    problems: list[Problem] = []
    for source in container.get("envFrom", ()):
        result |= dict(_all_of(source, known, problems))
    for variable in container.get("env", ()):
        if "valueFrom" in variable:
            _add(result, variable["name"], variable["valueFrom"], known, problems)
        else:
            result[variable["name"]] = expanded(variable.get("value") or "", result)
    return result, problems


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with `$(NAME)` replaced; unknown names stay, and `$$(NAME)` is `$(NAME)`."""

    def replaced(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else values.get(found[2], found[0])

    return _REFERENCE.sub(replaced, text)


def _all_of(source: Mapping[str, Any], known: Known, problems: list[Problem]) -> Iterator[tuple[str, str]]:
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    found = known.config_maps.get(reference.get("name", "")) if "configMapRef" in source else None
    if found is not None:
        for key, content in contents(found).items():
            yield source.get("prefix", "") + key, content.decode(errors="replace")
    elif not reference.get("optional"):
        kind, advice = "ConfigMap", "put it into the same file"
        if "secretRef" in source:
            kind, advice = "secret", "a cluster's secrets are not here: set its variables yourself and make it optional"
        problems.append(Problem("spec.envFrom", f"{kind} {reference.get('name')}: {advice}"))


def _add(result: dict[str, str], name: str, source: Mapping[str, Any], known: Known, problems: list[Problem]) -> None:
    [(kind, reference)] = source.items()
    if kind == "fieldRef":
        value = _field(reference["fieldPath"], known)
    elif kind == "configMapKeyRef":
        held = contents(known.config_maps.get(reference["name"], {})).get(reference["key"])
        value = None if held is None else held.decode(errors="replace")
    else:
        value = known.inherited.get(name)
    if value is not None:
        result[name] = value
    elif not reference.get("optional"):
        advice = "put the ConfigMap into the same file" if kind == "configMapKeyRef" else f"set {name} yourself"
        problems.append(Problem("spec.env", f"{name} comes from a cluster ({kind}): {advice}"))


def _field(path: str, known: Known) -> str | None:
    """Return a field of the pod, where the downward API knows one that means something here."""
    metadata = known.pod["metadata"]
    places = {"labels": metadata.get("labels", {}), "annotations": metadata.get("annotations", {})}
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(places[found[1]].get(found[2], ""))
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["ownerReferences"][0]["uid"],
        "spec.nodeName": known.host,
        "spec.serviceAccountName": "default",
    }
    return simple.get(path, LOCAL_HOST if path.endswith(("IP", "IPs")) else None)


def inherited(environ: Mapping[str, str], program_folder: str, drop: Iterable[str]) -> dict[str, str]:
    """Return the user's environment as a replica gets it below its own variables.

    `program_folder`, that of the running Python, goes first on the path, so that `python` is the one that has TFDist.
    """
    kept = {name: value for name, value in environ.items() if name not in set(drop)}
    path = environ.get("PATH", "")
    first = path.split(":", 1)[0] == program_folder
    return kept | {"PATH": path if first else f"{program_folder}:{path}".rstrip(":"), "PYTHONUNBUFFERED": "1"}
