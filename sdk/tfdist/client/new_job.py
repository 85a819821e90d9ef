"""Manifests of jobs from options: of a command, of a function, or of the answers of a user."""

import re
from collections.abc import Mapping
from typing import Any, Final

from tfdist.api.resource import API_VERSION, KIND, MAX_NAME_LENGTH
from tfdist.api.sweep_resource import SWEEP_KIND
from tfdist.podspec.resources import NVIDIA_GPU

Json = dict[str, Any]

_SUFFIX: Final = 6
"""Length of a hyphen and of what the API server appends to `generateName`."""


def new_job(
    runs: Mapping[str, Any],
    name: str | None,
    stem: str,
    *,
    workers: int | None = None,
    gpus: int | None = None,
    image: str | None = None,
    env: Mapping[str, str] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Json:
    """Return the manifest of a job.

    Args:
        runs: what it runs: the fields `training` or `command` of the specification.
        name: its name; None for one that begins like `stem`.
        stem: name of the script, program or function.
        workers: number of workers; default: 1.
        gpus: GPUs of each worker.
        image: instead of the trainer's image.
        env: variables.
        fields: further fields of the specification, which precede, also within objects.
    """
    spec: Json = {"worker": {"replicas": 1 if workers is None else workers}}
    if image is not None:
        spec["image"] = image
    spec |= runs
    if env:
        spec["env"] = [{"name": variable, "value": value} for variable, value in env.items()]
    if gpus:
        spec["resources"] = {"limits": {NVIDIA_GPU: gpus}}
    metadata = {"name": name} if name else {"generateName": name_prefix(stem)}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": _deep_merge(spec, fields or {})}


def job_name(stem: str, longest: int = MAX_NAME_LENGTH - _SUFFIX) -> str:
    """Return a name of a job that resembles the name of a file or function, of at most `longest` characters."""
    words = "-".join(re.findall("[a-z0-9]+", stem.lower()))
    name = words if words[:1].isalpha() else f"job-{words}"
    return name[:longest].strip("-")


def name_prefix(stem: str, longest: int = MAX_NAME_LENGTH) -> str:
    """Return a `generateName` that resembles `stem`, for names of at most `longest` characters."""
    return f"{job_name(stem, longest - _SUFFIX)}-"


def job_spec_of(manifest: Mapping[str, Any]) -> Json:
    """Return the specification of a job, or that in the template of a sweep; it may be malformed."""
    spec = manifest.get("spec") or {}
    return spec if manifest.get("kind") != SWEEP_KIND else (spec.get("template") or {}).get("spec") or {}


def _deep_merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> Json:
    """Return an object with the fields of another one, which precede, also in objects within."""
    result = dict(base)
    for key, value in change.items():
        are_mappings = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _deep_merge(result[key], value) if are_mappings else value
    return result
