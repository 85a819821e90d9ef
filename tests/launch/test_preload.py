"""Settings of the fork server before it imports TensorFlow, which a fork cannot change any more."""

import importlib
import json
import os
from typing import Any

import pytest

from tfdist_trainer import preload


@pytest.mark.parametrize(("config", "legacy"), [({}, None), ({"minShardBytes": 1024}, "1")])
def test_the_keras_of_the_program_is_chosen_before_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], legacy: str | None
) -> None:
    job = {"name": "a", "namespace": "b", "uid": "c", "strategy": "ParameterServer", "role": "chief", "index": 0}
    job |= {"replicas": {}, "training": {"program": "image_classification", "config": config}}
    monkeypatch.setenv("TFDIST_JOB", json.dumps(job))
    monkeypatch.delenv("TF_USE_LEGACY_KERAS", raising=False)
    seen: list[str | None] = []
    monkeypatch.setattr(importlib, "import_module", lambda _: seen.append(os.environ.get("TF_USE_LEGACY_KERAS")))
    before = dict(os.environ)
    preload.trainer()
    for name in set(os.environ) - set(before):
        del os.environ[name]
    assert set(seen) == {legacy}
