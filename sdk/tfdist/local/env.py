"""Environment variables of a replica and `$(NAME)` in its command, with the semantics of the kubelet; pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tfdist.local.ports import LOCAL_HOST
from tfdist.local.volumes import contents
from tfdist.render.defaults import LOG_LEVEL, LOG_LEVEL_ENV
from tfdist.render.proxy import NO_GRPC_PROXY_ENV
from tfdist.validation import FieldError

LOOPBACK_HOSTS: Final = (LOCAL_HOST, "localhost", "::1")
"""Hosts of the replicas of a local run; an HTTP proxy cannot reach them."""
_DEFAULT_LOG_LEVEL: Final = {"name": LOG_LEVEL_ENV, "value": LOG_LEVEL}
_REFERENCE: Final = re.compile(r"\$(\$|\(([^()\s]+)\))")


@dataclass(frozen=True, slots=True)
class EnvSources:
    """Sources of variables: fields of the pod, ConfigMaps of the same FILE, and the user's environment."""

    pod: Mapping[str, Any]
    host: str
    config_maps: Mapping[str, Mapping[str, Any]]
    inherited: Mapping[str, str]


def container_env(container: Mapping[str, Any], sources: EnvSources) -> tuple[dict[str, str], list[FieldError]]:
    """Return the variables of a container, and those that this machine cannot provide as problems.

    The value of a secret is taken from the variable of the same name in the user's environment.
    """
    result: dict[str, str] = {}
    problems: list[FieldError] = []
    for source in container.get("envFrom", ()):
        result |= dict(_env_from(source, sources, problems))
    for variable in container.get("env", ()):
        if variable == _DEFAULT_LOG_LEVEL and LOG_LEVEL_ENV in sources.inherited:
            continue  # the user's environment is the base of a local run, and precedes defaults
        if "valueFrom" in variable:
            _add(result, variable["name"], variable["valueFrom"], sources, problems)
        else:
            result[variable["name"]] = expand(variable.get("value") or "", result)
    return result, problems


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with `$(NAME)` replaced by its value; unknown names stay, and `$$(NAME)` becomes `$(NAME)`."""

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] == "$" else values.get(match[2], match[0])

    return _REFERENCE.sub(replacement, text)


def _env_from(source: Mapping[str, Any], sources: EnvSources, problems: list[FieldError]) -> Iterator[tuple[str, str]]:
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    config_map = sources.config_maps.get(reference.get("name", "")) if "configMapRef" in source else None
    if config_map is not None:
        for key, content in contents(config_map).items():
            yield source.get("prefix", "") + key, content.decode(errors="replace")
    elif not reference.get("optional"):
        kind, advice = "ConfigMap", "put it into the same file"
        if "secretRef" in source:
            kind, advice = "secret", "secrets exist in a cluster only: set its variables yourself and make it optional"
        problems.append(FieldError("spec.envFrom", f"{kind} {reference.get('name')}: {advice}"))


def _add(
    result: dict[str, str], name: str, source: Mapping[str, Any], sources: EnvSources, problems: list[FieldError]
) -> None:
    [(kind, reference)] = source.items()
    if kind == "fieldRef":
        value = _field(reference["fieldPath"], sources)
    elif kind == "configMapKeyRef":
        key_value = contents(sources.config_maps.get(reference["name"], {})).get(reference["key"])
        value = None if key_value is None else key_value.decode(errors="replace")
    else:
        value = sources.inherited.get(name)
    if value is not None:
        result[name] = value
    elif not reference.get("optional"):
        advice = "put the ConfigMap into the same file" if kind == "configMapKeyRef" else f"set {name} yourself"
        problems.append(FieldError("spec.env", f"{name} comes from the cluster ({kind}): {advice}"))


def _field(path: str, sources: EnvSources) -> str | None:
    """Return a field of the pod, as the downward API does, or None for one without a meaning on this machine."""
    metadata = sources.pod["metadata"]
    places = {"labels": metadata.get("labels", {}), "annotations": metadata.get("annotations", {})}
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(places[match[1]].get(match[2], ""))
    simple = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["ownerReferences"][0]["uid"],
        "spec.nodeName": sources.host,
        "spec.serviceAccountName": "default",
    }
    return simple.get(path, LOCAL_HOST if path.endswith(("IP", "IPs")) else None)


def without_proxies(environ: Mapping[str, str], hosts: Iterable[str] = LOOPBACK_HOSTS) -> dict[str, str]:
    """Return `environ` with `hosts` excluded from all proxies, in addition to its present exclusions.

    TensorFlow's gRPC reads `no_grpc_proxy`, or `no_proxy` if that is not set, and knows no `*`. Other clients read
    `no_proxy`, or `NO_PROXY` if that is not set: both get the entries of both. `*` is valid only alone.
    """
    entries = [*_entries(environ, "no_proxy"), *_entries(environ, "NO_PROXY"), *hosts]
    value = "*" if "*" in entries else ",".join(dict.fromkeys(entries))
    grpc = ",".join(dict.fromkeys((*_entries(environ, NO_GRPC_PROXY_ENV), *entries)))
    return {**environ, "no_proxy": value, "NO_PROXY": value, NO_GRPC_PROXY_ENV: grpc}


def _entries(environ: Mapping[str, str], name: str) -> list[str]:
    return [entry.strip() for entry in environ.get(name, "").split(",") if entry.strip()]


def inherited(environ: Mapping[str, str], program_folder: str, drop: Iterable[str]) -> dict[str, str]:
    """Return the user's environment without the variables `drop`, as the base of a replica's environment.

    `program_folder`, the folder of the running Python, comes first in PATH, so that `python` is the one with TFDist.
    """
    variables = {name: value for name, value in environ.items() if name not in set(drop)}
    path = environ.get("PATH", "")
    first = path.split(":", 1)[0] == program_folder
    return variables | {"PATH": path if first else f"{program_folder}:{path}".rstrip(":"), "PYTHONUNBUFFERED": "1"}
