"""Every field of a TFJob, except those of pods, is kept or reported in a note."""

from copy import deepcopy
from typing import Any

import pytest
from support.tfjobs import all_types, replica, tfjob

from tfdist.convert import Conversion, convert
from tfdist.validation import parse

Json = dict[str, Any]


def spec(given: Json) -> Json:
    made: Json = convert(given).manifest["spec"]
    return made


def run_policy(**fields: Any) -> Json:
    made: Json = spec(tfjob(policy=fields))["runPolicy"]
    return made


def notes(conversion: Conversion, path: str) -> str:
    return "; ".join(note.message for note in conversion.notes if note.path == path)


def note(given: Json, path: str) -> str:
    found = notes(convert(given), path)
    assert found, f"no note on {path}"
    return found


def test_a_worker_job_becomes_as_short_as_a_handwritten_one() -> None:
    types = {"Worker": replica(2, restart_policy="OnFailure", command=["python", "train.py"])}
    made = convert(tfjob(types, policy={"backoffLimit": 4, "cleanPodPolicy": "Running"})).manifest
    assert made == {
        "apiVersion": "tfdist.dev/v1",
        "kind": "TFDistJob",
        "metadata": {"name": "fashion", "namespace": "team"},
        "spec": {
            "image": "registry.example.com/team/train:7",
            "command": ["python", "train.py"],
            "worker": {"replicas": 2},
            "runPolicy": {"backoffLimit": 4, "cleanPodPolicy": "Running"},
        },
    }


def test_the_tfjob_is_not_changed_and_shares_nothing_with_the_result() -> None:
    given = tfjob(all_types(env=[{"name": "A", "value": "1"}]), enableDynamicWorker=True)
    before = deepcopy(given)
    made = convert(given).manifest
    made["spec"]["env"].clear()
    made["spec"]["failurePolicy"]["rules"][0].clear()
    assert given == before
    assert spec(given)["failurePolicy"]["rules"][0]["action"] == "RestartWithoutCount"


def test_name_namespace_labels_and_annotations_are_kept() -> None:
    given = tfjob()
    given["metadata"] |= {"labels": {"team": "a"}, "annotations": {"why": "because"}}
    assert convert(given).manifest["metadata"] == given["metadata"]


def test_a_generated_name_is_kept() -> None:
    given = tfjob()
    given["metadata"] = {"generateName": "fashion-"}
    assert convert(given).manifest["metadata"] == {"generateName": "fashion-"}


def test_fields_that_the_api_server_and_kubectl_added_are_dropped() -> None:
    given = tfjob()
    added = {"uid": "1", "resourceVersion": "2", "generation": 3, "managedFields": [], "creationTimestamp": None}
    given["metadata"] |= added | {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}}
    given["status"] = {"conditions": [], "replicaStatuses": {}}
    made = convert(given)
    assert made.manifest == convert(tfjob()).manifest
    assert made.notes == convert(tfjob()).notes


@pytest.mark.parametrize("name", ["ownerReferences", "finalizers"])
def test_ties_to_other_objects_are_dropped_with_a_note(name: str) -> None:
    given = tfjob()
    given["metadata"][name] = ["x"]
    assert "dropped" in note(given, f"metadata.{name}")


@pytest.mark.parametrize(
    ("key", "role"),
    [("Chief", "chief"), ("master", "chief"), ("WORKER", "worker"), ("Ps", "ps"), ("EVALUATOR", "evaluator")],
)
def test_replica_types_of_any_letter_case_become_roles(key: str, role: str) -> None:
    others = {} if role in {"chief", "worker"} else {"Worker": replica(1)}
    assert role in spec(tfjob({key: replica(1)} | others))


def test_a_master_is_a_chief_with_a_note() -> None:
    given = tfjob({"Master": replica(), "Worker": replica(2)})
    assert "becomes the role chief" in note(given, "spec.tfReplicaSpecs.Master")


def test_replicas_are_one_where_they_are_not_given() -> None:
    assert spec(tfjob({"Worker": replica()}))["worker"] == {"replicas": 1}


def test_a_chief_alone_stays_a_chief_alone() -> None:
    made = spec(tfjob({"Chief": replica(1)}))
    assert made["chief"] == {}
    assert "worker" not in made


def test_a_type_with_no_replicas_is_left_out_with_a_note() -> None:
    given = tfjob({"Worker": replica(2), "PS": replica(0)})
    assert "ps" not in spec(given)
    assert "left out" in note(given, "spec.tfReplicaSpecs.PS.replicas")


def test_of_several_evaluators_one_is_kept_with_a_note() -> None:
    given = tfjob({"Worker": replica(2), "Evaluator": replica(3)})
    assert spec(given)["evaluator"] == {}
    assert "TensorFlow allows one evaluator, got 3" in note(given, "spec.tfReplicaSpecs.Evaluator.replicas")


def test_an_evaluator_has_a_note_on_its_deadline_and_its_tf_config() -> None:
    given = tfjob({"Worker": replica(2), "Evaluator": replica(1)})
    text = note(given, "spec.tfReplicaSpecs.Evaluator")
    assert "no longer in the TF_CONFIG of other replicas" in text
    assert "at most 600 s" in text
    assert "evaluation" not in spec(given)


@pytest.mark.parametrize(
    ("types", "strategy"),
    [
        (["Worker"], None),
        (["Chief"], None),
        (["Chief", "Worker", "Evaluator"], None),
        (["Chief", "Worker", "PS"], "ParameterServer"),
        (["Master", "Worker", "PS", "Evaluator"], "ParameterServer"),
        (["Worker", "PS"], "Custom"),
        (["Chief", "PS"], "Custom"),
    ],
)
def test_the_replica_types_decide_the_strategy(types: list[str], strategy: str | None) -> None:
    made = convert(tfjob({key: replica(1) for key in types})).manifest
    assert made["spec"].get("strategy") == strategy
    parse(made)


def test_chief_and_workers_with_different_gpus_are_no_mirrored_gang() -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    assert spec(tfjob({"Chief": replica(1), "Worker": replica(2, **gpu)}))["strategy"] == "Custom"
    assert "strategy" not in spec(tfjob({"Chief": replica(1, **gpu), "Worker": replica(2, **gpu)}))


@pytest.mark.parametrize(
    ("types", "text"),
    [
        (["Worker"], "chief and workers restart together"),
        (["Chief", "Worker", "PS"], "a worker restarts alone"),
        (["Worker", "PS"], "all replicas but the evaluator restart together"),
    ],
)
def test_a_note_names_the_replicas_that_restart_together(types: list[str], text: str) -> None:
    assert text in note(tfjob({key: replica(2 if key == "Worker" else 1) for key in types}), "spec.tfReplicaSpecs")


def test_a_single_replica_has_no_note_on_restarts_together() -> None:
    made = convert(tfjob({"Worker": replica(1)}))
    assert not [note for note in made.notes if "restart together" in note.message]


def test_run_policy_is_kept() -> None:
    fields = {"suspend": True, "activeDeadlineSeconds": 60, "cleanPodPolicy": "All", "ttlSecondsAfterFinished": 0}
    assert run_policy(**fields, backoffLimit=2) == fields | {"backoffLimit": 2}


def test_clean_pod_policy_none_the_default_of_the_training_operator_is_written() -> None:
    assert run_policy() == {"cleanPodPolicy": "None"}
    assert "None, the default of a TFJob" in note(tfjob(), "spec.runPolicy.cleanPodPolicy")


def test_an_unknown_clean_pod_policy_acts_as_all_as_it_did() -> None:
    assert run_policy(cleanPodPolicy="Everything")["cleanPodPolicy"] == "All"


def test_an_active_deadline_fires_by_itself_now() -> None:
    given = tfjob(policy={"activeDeadlineSeconds": 60})
    assert "takes effect at once" in note(given, "spec.runPolicy.activeDeadlineSeconds")


@pytest.mark.parametrize(
    ("field", "given", "made"),
    [
        ("activeDeadlineSeconds", 0, 1),
        ("ttlSecondsAfterFinished", -5, 0),
        ("backoffLimit", 5000, 1000),
        ("backoffLimit", -1, 0),
    ],
)
def test_a_number_out_of_range_becomes_the_nearest_with_a_note(field: str, given: int, made: int) -> None:
    assert run_policy(**{field: given})[field] == made
    assert f"{given} became {made}" in note(tfjob(policy={field: given}), f"spec.runPolicy.{field}")


def test_managed_by_the_training_operator_is_managed_by_tfdist() -> None:
    given = tfjob(policy={"managedBy": "kubeflow.org/training-operator"})
    assert "managedBy" not in spec(given)["runPolicy"]
    assert "dropped" in note(given, "spec.runPolicy.managedBy")


def test_managed_by_multikueue_is_kept() -> None:
    assert run_policy(managedBy="kueue.x-k8s.io/multikueue")["managedBy"] == "kueue.x-k8s.io/multikueue"


def test_limits_at_their_place_of_the_time_before_run_policy_are_read() -> None:
    given = tfjob(cleanPodPolicy="All", backoffLimit=3, policy={"backoffLimit": 5})
    assert spec(given)["runPolicy"] == {"backoffLimit": 5, "cleanPodPolicy": "All"}
    assert "read as spec.runPolicy.cleanPodPolicy" in note(given, "spec.cleanPodPolicy")
    assert "dropped in favour of spec.runPolicy.backoffLimit" in note(given, "spec.backoffLimit")


def test_the_success_policy_all_workers_is_kept() -> None:
    assert spec(tfjob(successPolicy="AllWorkers"))["successPolicy"] == "AllWorkers"
    assert "successPolicy" not in spec(tfjob(successPolicy=""))


def test_the_success_policy_of_a_job_with_a_chief_had_no_effect_and_is_dropped() -> None:
    given = tfjob({"Chief": replica(), "Worker": replica()}, successPolicy="AllWorkers")
    assert "successPolicy" not in spec(given)
    assert "ignores it" in note(given, "spec.successPolicy")


def test_an_unknown_success_policy_is_the_default_as_it_was() -> None:
    assert "successPolicy" not in spec(tfjob(successPolicy="Some"))
    assert "unknown" in note(tfjob(successPolicy="Some"), "spec.successPolicy")


@pytest.mark.parametrize("types", [["Worker"], ["Chief"], ["Worker", "PS"]])
def test_dynamic_workers_are_left_out_with_a_note(types: list[str]) -> None:
    given = tfjob({key: replica(1) for key in types}, enableDynamicWorker=True)
    assert "elastic" not in spec(given)
    text = note(given, "spec.enableDynamicWorker")
    assert text.startswith("dropped: elastic is not supported by this version of TFDist")
    parse(convert(given).manifest)


def test_fields_that_a_tfjob_does_not_have_are_dropped_with_a_note() -> None:
    given = tfjob(policy={"retries": 3, "schedulingPolicy": {"colour": "red"}}, replicas=2)
    given["spec"]["tfReplicaSpecs"]["Worker"]["port"] = 1
    given["data"] = {}
    made = convert(given)
    for path in (
        "data",
        "spec.replicas",
        "spec.runPolicy.retries",
        "spec.runPolicy.schedulingPolicy.colour",
        "spec.tfReplicaSpecs.Worker.port",
    ):
        assert notes(made, path) == "unknown to TFJob v1; dropped"
