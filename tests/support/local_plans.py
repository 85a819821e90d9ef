"""Jobs that are prepared for a machine, without any process of theirs."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from support.factories import manifest
from tfdist.local.job import CannotRunHere, LocalJob, Machine
from tfdist.local.volumes import Sources
from tfdist.validation import parse

STATE = Path("/here/.tfdist/job")


def prepared(
    document: Mapping[str, Any],
    *,
    entry_point: tuple[str, ...] = (),
    volumes: Mapping[str, str] | None = None,
    config_maps: Mapping[str, Mapping[str, Any]] | None = None,
    environ: Mapping[str, str] | None = None,
    gpus: tuple[str, ...] = (),
    launcher: bool = False,
) -> LocalJob:
    job = parse({**document, "metadata": {**document["metadata"], "uid": "local"}})
    named = {name: Path(folder) for name, folder in (volumes or {}).items()}
    machine = Machine("box", environ or {}, entry_point, gpus, launcher)
    ports = itertools.count(40001)
    return LocalJob(job, Sources(STATE, named, config_maps or {}), machine, lambda: next(ports))


def alone(**spec: Any) -> dict[str, Any]:
    """Return a job of one replica that runs the command of `spec`, and no built-in program."""
    document = manifest(**({"worker": {"replicas": 1}} | spec))
    if "training" not in spec:
        del document["spec"]["training"]
    return document


def rejection(document: Mapping[str, Any], **options: Any) -> str:
    with pytest.raises(CannotRunHere) as rejected:
        prepared(document, **options)
    return str(rejected.value)
