"""A folder named after the pod, whose name changes with each attempt, has a warning, and a note at conversion."""

from typing import Any

import pytest
from support.factories import manifest
from support.tfjobs import all_types, replica, tfjob

from tfdist.convert import convert
from tfdist.validation import parse, warnings

Json = dict[str, Any]

POD_NAME: Json = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
DERIVED: Json = {"name": "RUN", "value": "run-$(POD_NAME)"}
MOUNT: Json = {"name": "v", "mountPath": "/ckpt", "subPathExpr": "$(POD_NAME)"}
VOLUMES: list[Json] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
WORKER = "spec.tfReplicaSpecs.Worker.template.spec"
KEEPS = "which a TFJob keeps after a restart"

FOLDERS: dict[str, tuple[Json, str]] = {
    "mount": ({"volumeMounts": [MOUNT], "volumes": VOLUMES}, "volumeMounts[0].subPathExpr"),
    "mount of a derived name": (
        {"env": [POD_NAME, DERIVED], "volumeMounts": [MOUNT | {"subPathExpr": "a/$(RUN)"}], "volumes": VOLUMES},
        "volumeMounts[0].subPathExpr",
    ),
    "argument": ({"args": ["-v", "--logdir=/ckpt/$(POD_NAME)"]}, "args[1]"),
    "option for a folder": ({"args": ["--model_dir=$(POD_NAME)"]}, "args[0]"),
    "command": ({"command": ["train.py", "/ckpt/$(POD_NAME)/x"]}, "command[1]"),
    "shell": ({"command": ["sh", "-c", "mkdir -p /ckpt/${POD_NAME} && python train.py"]}, "command[2]"),
    "shell without braces": ({"command": ["sh", "-c", 'cd "/ckpt/$POD_NAME"; python train.py']}, "command[2]"),
    "value of a variable": ({"env": [POD_NAME, {"name": "DIR", "value": "s3://b/$(POD_NAME)"}]}, "env[1].value"),
}

NO_FOLDERS: dict[str, Json] = {
    "only a variable": {},
    "name": {"args": ["--name=$(POD_NAME)"]},
    "escaped": {"args": ["--logdir=/ckpt/$$(POD_NAME)"]},
    "other variable": {"args": ["--logdir=/ckpt/$(POD_NAMESPACE)", "/a/$POD_NAMES"]},
    "address": {"args": ["--push=http://gateway/$(POD_NAME)"]},
    "resource": {"command": ["sh", "-c", "kubectl label pod/$POD_NAME a=b"]},
}


def found_warnings(**spec: Any) -> dict[str, str]:
    given = manifest(image="a:1", **spec)
    del given["spec"]["training"]
    return {warning.path: warning.message for warning in warnings(parse(given))}


def notes(types: Json) -> dict[str, str]:
    return {note.path: note.message for note in convert(tfjob(types)).notes if KEEPS in note.message}


def worker(fields: Json) -> Json:
    container = {"env": [POD_NAME], "command": ["train.py"]} | fields
    return replica(2, {"volumes": container.pop("volumes", [])}, **container)


@pytest.mark.parametrize("case", FOLDERS)
def test_a_folder_named_after_the_pod_is_a_warning_at_its_field(case: str) -> None:
    fields, place = FOLDERS[case]
    found = found_warnings(**{"env": [POD_NAME], "command": ["train.py"]} | fields)
    assert [path for path in found if path == f"spec.{place}"]
    assert "metadata.labels['tfdist.dev/role']" in found[f"spec.{place}"]


@pytest.mark.parametrize("case", NO_FOLDERS)
def test_another_use_of_the_name_is_no_warning(case: str) -> None:
    assert not found_warnings(**{"env": [POD_NAME], "command": ["train.py"]} | NO_FOLDERS[case])


def test_several_folders_of_a_container_are_one_warning() -> None:
    found = found_warnings(env=[POD_NAME], command=["a"], args=["/a/$(POD_NAME)", "b", "/c/$(POD_NAME)"])
    assert list(found) == ["spec.args[0]"]
    assert found["spec.args[0]"].endswith("; 1 more in this container")


def test_the_folder_of_an_init_container_is_a_warning_at_its_level() -> None:
    init = {"name": "fetch", "image": "a:1", "env": [POD_NAME], "command": ["mkdir", "/ckpt/$(POD_NAME)"]}
    found = found_warnings(command=["a"], worker={"replicas": 2, "template": {"spec": {"initContainers": [init]}}})
    assert list(found) == ["spec.worker.template.spec.initContainers[0].command[1]"]


@pytest.mark.parametrize("case", FOLDERS)
def test_a_converted_job_has_a_note_at_each_folder_named_after_the_pod(case: str) -> None:
    fields, place = FOLDERS[case]
    found = notes({"Worker": worker(fields)})
    path = f"{WORKER}.containers[0].{place}"
    assert path in found
    assert "metadata.labels['tfdist.dev/index']" in found[path]


def test_every_place_of_a_converted_job_has_a_note() -> None:
    fields = {"env": [POD_NAME, DERIVED], "args": ["--name=$(RUN)"], "volumeMounts": [MOUNT], "volumes": VOLUMES}
    given = worker(fields)
    given["template"]["spec"]["initContainers"] = [{"name": "i", "image": "a:1", "env": [POD_NAME]}]
    assert list(notes({"Worker": given})) == [
        f"{WORKER}.initContainers[0].env[0]",
        f"{WORKER}.containers[0].env[1].value",
        f"{WORKER}.containers[0].volumeMounts[0].subPathExpr",
        f"{WORKER}.containers[0].args[0]",
    ]


def test_the_same_place_of_several_replica_types_has_one_note() -> None:
    found = notes(all_types(env=[POD_NAME], args=["/ckpt/$(POD_NAME)"]))
    (text,) = found.values()
    assert text.endswith("; also in Worker, PS, Evaluator")


def test_a_file_with_the_name_of_the_pod_has_a_note() -> None:
    items = [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]
    found = notes({"Worker": replica(2, {"volumes": [{"name": "info", "downwardAPI": {"items": items}}]})})
    assert list(found) == [f"{WORKER}.volumes[0].downwardAPI.items[0].fieldRef.fieldPath"]


def test_a_job_without_the_name_of_its_pods_has_no_such_note() -> None:
    namespace = {"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    assert not notes({"Worker": worker({"env": [namespace], "args": ["/ckpt/$(NAMESPACE)"]})})


def test_a_variable_that_is_set_again_is_not_the_name_of_the_pod() -> None:
    fields = {"env": [POD_NAME, {"name": "POD_NAME", "value": "a"}], "args": ["/ckpt/$(POD_NAME)"]}
    assert not notes({"Worker": worker(fields)})
