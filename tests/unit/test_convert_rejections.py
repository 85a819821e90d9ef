"""Manifests that are not TFJobs, or that the training-operator rejects, are rejected with every error and its path."""

from typing import Any

import pytest
from support.tfjobs import replica, tfjob

from tfdist.convert import CannotConvert, convert
from tfdist.validation import FieldError

Json = dict[str, Any]

TYPES = "spec.tfReplicaSpecs"
CONTAINERS = f"{TYPES}.Worker.template.spec.containers"


def without(path: str) -> Json:
    given: Any = tfjob()
    part, *inner = path.split(".")
    place = given
    for name in inner:
        place, part = place[part], name
    del place[part]
    return dict(given)


REJECTED: dict[str, tuple[Any, str, str]] = {
    "a list": ([], "", "got list"),
    "another kind": (tfjob() | {"kind": "PyTorchJob"}, "kind", "got PyTorchJob"),
    "no kind": (without("kind"), "kind", "got no kind"),
    "an older version": (tfjob() | {"apiVersion": "kubeflow.org/v1beta2"}, "apiVersion", "write kubeflow.org/v1"),
    "no metadata": (without("metadata"), "metadata", "Required value"),
    "no name": (without("metadata.name"), "metadata.name", "required"),
    "no spec": (without("spec"), "spec", "Required value"),
    "no replica types": (without("spec.tfReplicaSpecs"), TYPES, "Required value"),
    "an empty map of types": (tfjob({}), TYPES, "no replica type"),
    "an unknown type": (tfjob({"Sidecar": replica()}), f"{TYPES}.Sidecar", "unknown replica type; supported are"),
    "a type twice": (tfjob({"Worker": replica(), "WORKER": replica()}), TYPES, "Worker, WORKER are the same"),
    "chief and master": (tfjob({"Chief": replica(), "Master": replica()}), TYPES, "Chief and Master are the same"),
    "two chiefs": (tfjob({"Chief": replica(2)}), f"{TYPES}.Chief.replicas", "TensorFlow allows one chief, got 2"),
    "less than no replicas": (tfjob({"Worker": replica(-1)}), f"{TYPES}.Worker.replicas", "must not be negative"),
    "no replicas at all": (tfjob({"Worker": replica(0)}), TYPES, "a Chief or Worker is required"),
    "ps alone": (tfjob({"PS": replica()}), TYPES, "a Chief or Worker is required"),
    "no template": (tfjob({"Worker": {"replicas": 1}}), CONTAINERS, "required"),
    "no containers": (tfjob({"Worker": replica(pod={"containers": []})}), CONTAINERS, "required"),
    "an empty image": (tfjob({"Worker": replica(image="")}), f"{CONTAINERS}[0].image", "required"),
    "no container tensorflow": (tfjob({"Worker": replica(name="main")}), CONTAINERS, "must be named tensorflow"),
    "an unknown restart policy": (
        tfjob({"Worker": replica(restart_policy="Sometimes")}),
        f"{TYPES}.Worker.restartPolicy",
        "'Sometimes' is not one of Always, OnFailure, Never, ExitCode",
    ),
    "another manager": (tfjob(policy={"managedBy": "other"}), "spec.runPolicy.managedBy", "'other' is not one of"),
    "no manager at all": (tfjob(policy={"managedBy": ""}), "spec.runPolicy.managedBy", "'' is not one of"),
    "text for a number": (tfjob(policy={"backoffLimit": "3"}), "spec.runPolicy.backoffLimit", 'Invalid value: "3"'),
    "a number for text": (
        tfjob({"Worker": replica(env=[{"name": "A", "value": 1}])}),
        f"{CONTAINERS}[0].env[0].value",
        "Invalid value: 1",
    ),
    "no replica type but null": (tfjob({"Worker": None}), TYPES, "no replica type"),
}


@pytest.mark.parametrize("name", REJECTED)
def test_a_manifest_is_rejected_with_the_path_of_each_error(name: str) -> None:
    given, path, message = REJECTED[name]
    with pytest.raises(CannotConvert) as error:
        convert(given)
    found = [problem for problem in error.value.problems if problem.path == path]
    assert any(message in problem.message for problem in found), error.value.problems


def test_all_errors_of_the_replica_types_are_reported_at_once() -> None:
    with pytest.raises(CannotConvert) as error:
        convert(tfjob({"Chief": replica(), "Master": replica(image=""), "Cook": replica(name="x")}))
    assert [problem.path for problem in error.value.problems] == [
        TYPES,
        f"{TYPES}.Master.template.spec.containers[0].image",
        f"{TYPES}.Cook",
        f"{TYPES}.Cook.template.spec.containers",
    ]
    assert all(isinstance(problem, FieldError) for problem in error.value.problems)


def test_the_error_reads_as_one_line() -> None:
    with pytest.raises(CannotConvert, match="kind: only a TFJob can be converted; got Job"):
        convert({"kind": "Job"})
