"""What is no TFJob, or is refused by its own operator, is refused with every mistake and its path."""

from typing import Any

import pytest
from support.tfjobs import replica, tfjob

from tfdist.convert import CannotConvert, convert
from tfdist.validation import Problem

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


REFUSED: dict[str, tuple[Any, str, str]] = {
    "a list": ([], "", "no manifest, but list"),
    "another kind": (tfjob() | {"kind": "PyTorchJob"}, "kind", "this is PyTorchJob"),
    "no kind": (without("kind"), "kind", "no kind at all"),
    "an older version": (tfjob() | {"apiVersion": "kubeflow.org/v1beta2"}, "apiVersion", "write kubeflow.org/v1"),
    "no metadata": (without("metadata"), "metadata", "required, and absent"),
    "no name": (without("metadata.name"), "metadata.name", "required"),
    "no spec": (without("spec"), "spec", "required, and absent"),
    "no replica types": (without("spec.tfReplicaSpecs"), TYPES, "required, and absent"),
    "an empty map of types": (tfjob({}), TYPES, "no replica type"),
    "an unknown type": (tfjob({"Sidecar": replica()}), f"{TYPES}.Sidecar", "unknown replica type; known are"),
    "a type twice": (tfjob({"Worker": replica(), "WORKER": replica()}), TYPES, "Worker, WORKER are the same"),
    "chief and master": (tfjob({"Chief": replica(), "Master": replica()}), TYPES, "Chief and Master are the same"),
    "two chiefs": (tfjob({"Chief": replica(2)}), f"{TYPES}.Chief.replicas", "TensorFlow takes one chief, not 2"),
    "less than no replicas": (tfjob({"Worker": replica(-1)}), f"{TYPES}.Worker.replicas", "cannot be negative"),
    "no replicas at all": (tfjob({"Worker": replica(0)}), TYPES, "nothing trains"),
    "ps alone": (tfjob({"PS": replica()}), TYPES, "nothing trains: a Chief or Worker is needed"),
    "no template": (tfjob({"Worker": {"replicas": 1}}), CONTAINERS, "required, and absent"),
    "no containers": (tfjob({"Worker": replica(pod={"containers": []})}), CONTAINERS, "required, and absent or empty"),
    "an empty image": (tfjob({"Worker": replica(image="")}), f"{CONTAINERS}[0].image", "required"),
    "no container tensorflow": (tfjob({"Worker": replica(name="main")}), CONTAINERS, "must be named tensorflow"),
    "a restart policy of nobody": (
        tfjob({"Worker": replica(restart_policy="Sometimes")}),
        f"{TYPES}.Worker.restartPolicy",
        "'Sometimes' is none of Always, OnFailure, Never, ExitCode",
    ),
    "another manager": (tfjob(policy={"managedBy": "other"}), "spec.runPolicy.managedBy", "'other' is none of"),
    "no manager at all": (tfjob(policy={"managedBy": ""}), "spec.runPolicy.managedBy", "'' is none of"),
    "words for a number": (tfjob(policy={"backoffLimit": "3"}), "spec.runPolicy.backoffLimit", "got '3'"),
    "a number for text": (
        tfjob({"Worker": replica(env=[{"name": "A", "value": 1}])}),
        f"{CONTAINERS}[0].env[0].value",
        "got 1",
    ),
    "no replica type but null": (tfjob({"Worker": None}), TYPES, "no replica type"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_manifest_is_refused_with_the_path_of_its_mistake(name: str) -> None:
    given, path, message = REFUSED[name]
    with pytest.raises(CannotConvert) as error:
        convert(given)
    found = [problem for problem in error.value.problems if problem.path == path]
    assert any(message in problem.message for problem in found), error.value.problems


def test_all_mistakes_of_the_replica_types_are_told_at_once() -> None:
    with pytest.raises(CannotConvert) as error:
        convert(tfjob({"Chief": replica(), "Master": replica(image=""), "Cook": replica(name="x")}))
    assert [problem.path for problem in error.value.problems] == [
        TYPES,
        f"{TYPES}.Master.template.spec.containers[0].image",
        f"{TYPES}.Cook",
        f"{TYPES}.Cook.template.spec.containers",
    ]
    assert all(isinstance(problem, Problem) for problem in error.value.problems)


def test_the_error_reads_as_one_line() -> None:
    with pytest.raises(CannotConvert, match="kind: only a TFJob can be converted; this is Job"):
        convert({"kind": "Job"})
