"""Checks of a manifest: all mistakes at once, each with its path and what to write instead."""

from typing import Any

import pytest
from support.factories import EVALUATED, manifest

from tfdist.validation import InvalidJob, parse

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a typo in a field": (manifest(wroker={}), "spec.wroker: unknown field; check its spelling"),
    "a typo further in": (manifest(worker={"replica": 2}), "spec.worker.replica: unknown field"),
    "an unknown strategy": (manifest(strategy="Mirored"), "spec.strategy: input should be 'MultiWorkerMirrored'"),
    "no worker": (manifest(worker={"replicas": 0}), "spec.worker.replicas: input should be greater than or equal to 1"),
    "words for a number": (manifest(worker={"replicas": "many"}), "spec.worker.replicas: input should be a valid int"),
    "an empty image": (manifest(image=""), "spec.image: string should have at least 1 character"),
    "two chiefs": (manifest(chief={"replicas": 2}), "spec.chief.replicas: input should be less than or equal to 1"),
    "a long name": (manifest(name="x" * 46), "metadata.name: string should have at most 45 characters"),
    "a name with a capital": (manifest(name="Job"), "metadata.name: string should match pattern"),
    "nothing to run": (manifest(training=None), "spec.training: nothing to run"),
    "a program without a name": (manifest(training={}), "spec.training.program: required, and absent"),
    "an own TF_CONFIG": (manifest(env=[{"name": "TF_CONFIG", "value": "{}"}]), "spec.env[0].name: TF_CONFIG is gener"),
    "evaluation of nothing": (
        manifest(evaluation={"mode": "AfterTraining"}),
        "spec.evaluation.mode: evaluation restores a checkpoint: set checkpoint.directory",
    ),
    "one device, two workers": (manifest(strategy="OneDevice"), "spec.worker.replicas: strategy OneDevice runs one"),
    "checkpoints that no other pod sees": (
        manifest(
            **EVALUATED, volumes=[{"name": "c", "emptyDir": {}}], volumeMounts=[{"name": "c", "mountPath": "/ckpt"}]
        ),
        "spec.checkpoint.directory: '/ckpt/{name}' is on volume 'c', an emptyDir",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_named_with_its_path(name: str) -> None:
    bad, message = BAD[name]
    with pytest.raises(InvalidJob) as error:
        parse(bad)
    assert message in str(error.value)


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(InvalidJob) as error:
        parse(manifest(wroker={}, strategy="x", worker={"replicas": 0}))
    assert [p.path for p in error.value.problems] == ["spec.strategy", "spec.worker.replicas", "spec.wroker"]


def test_shared_checkpoints_are_accepted() -> None:
    job = parse(manifest(**EVALUATED, volumes=[CLAIM], volumeMounts=[{"name": "data", "mountPath": "/ckpt"}]))
    assert job.spec.volumes is not None
    assert job.spec.volumes[0].model_extra == {"persistentVolumeClaim": {"claimName": "c"}}
