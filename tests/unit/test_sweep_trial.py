"""The TFDistJob of a trial: its metadata, and the template with the values of the trial at their targets."""

import copy
import json
from typing import Any

import pytest
from support.factories import UID
from support.sweeps import sweep_manifest

from tfdist.api.sweep import TFDistSweep
from tfdist.contract import Role
from tfdist.render.template import main_container, role_template
from tfdist.sweeps.trial import trial_manifest
from tfdist.sweeps.values import trial_values
from tfdist.validation import parse


def trial(sweep: dict[str, Any], number: int = 0) -> dict[str, Any]:
    return trial_manifest(sweep, TFDistSweep.model_validate(sweep), number)


def with_one(parameter: dict[str, Any], value: Any, **template: Any) -> dict[str, Any]:
    """Return the job of a sweep with one parameter, which has one value."""
    return trial(sweep_manifest(parameters=[{"name": "x", **parameter, "values": [value]}], template=template))


def variables(job: dict[str, Any], role: Role = Role.WORKER) -> dict[str, str]:
    """Return the environment variables that the job sets in the container `tensorflow` of a role."""
    found = main_container(role_template(parse(job), role))
    return {each["name"]: each["value"] for each in found["env"]}


def test_a_trial_has_name_namespace_and_labels_of_its_sweep_and_is_owned_by_it() -> None:
    sweep = sweep_manifest()
    sweep["metadata"]["labels"] = {"team": "vision", "argocd.argoproj.io/instance": "app", "tfdist.dev/sweep": "other"}
    assert trial(sweep, 12)["metadata"] == {
        "name": "fashion-lr-12",
        "namespace": "team",
        "labels": {"team": "vision", "tfdist.dev/sweep": "fashion-lr", "tfdist.dev/trial": "12"},
        "ownerReferences": [
            {
                "apiVersion": "tfdist.dev/v1alpha1",
                "kind": "TFDistSweep",
                "name": "fashion-lr",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }


def test_a_trial_is_a_valid_job_with_the_values_of_its_number() -> None:
    sweep = sweep_manifest()
    job = trial(sweep, 3)
    values = trial_values(TFDistSweep.model_validate(sweep).spec, 3)
    config = job["spec"]["training"]["config"]
    assert parse(job).spec.runtime.mixed_precision == values["precision"]
    assert (config["learningRate"], config["batchSizePerReplica"]) == (
        values["learningRate"],
        values["batchSizePerReplica"],
    )


def test_the_template_is_used_as_it_is_stored_without_defaults() -> None:
    sweep = sweep_manifest(parameters=[{"name": "x", "env": "X", "values": [1]}])
    spec = trial(sweep)["spec"]
    assert {name: value for name, value in spec.items() if name != "env"} == sweep["spec"]["template"]["spec"]


def test_neither_the_sweep_nor_its_values_are_changed_or_shared() -> None:
    # given a sweep whose values are objects, and variables at every level
    sweep = sweep_manifest(
        parameters=[{"name": "x", "values": [{"a": [1]}]}, {"name": "y", "env": "Y", "values": [1]}],
        template={"env": [{"name": "Y", "value": "0"}], "chief": {"env": [{"name": "Y", "value": "0"}]}},
    )
    before = copy.deepcopy(sweep)
    # when the job of a trial is changed
    job = trial(sweep)
    job["spec"]["training"]["config"]["x"]["a"].append(2)
    job["spec"]["worker"]["replicas"] = 9
    # then the sweep is the same, and so is the next job
    assert sweep == before
    assert trial(sweep) == trial(before)
    assert trial(sweep)["spec"]["training"]["config"]["x"] == {"a": [1]}


def test_a_field_is_set_and_the_objects_above_it_are_created() -> None:
    spec = with_one({"field": "runtime.seed"}, 7)["spec"]
    assert spec["runtime"] == {"seed": 7}


def test_a_field_replaces_the_value_of_the_template_and_keeps_its_neighbours() -> None:
    job = with_one({"field": "worker.replicas"}, 4, worker={"replicas": 2, "workingDir": "/w"})
    assert job["spec"]["worker"] == {"replicas": 4, "workingDir": "/w"}


def test_a_null_above_a_field_counts_as_absent() -> None:
    assert with_one({}, 7, training=None)["spec"]["training"] == {"config": {"x": 7}}


def test_a_field_below_a_list_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="args of the template is not an object, so it has no first"):
        with_one({"field": "args.first"}, 7, args=["-v"])


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.001, "0.001"), (3, "3"), (True, "true"), ("a b", "a b"), ("1", "1"), ([1, "ü"], '[1, "ü"]')],
)
def test_a_variable_has_the_value_as_text(value: Any, text: str) -> None:
    assert variables(with_one({"env": "X"}, value))["X"] == text


def test_every_replica_gets_number_and_values_of_its_trial() -> None:
    sweep = sweep_manifest(template={"chief": {}, "ps": {}, "strategy": "ParameterServer"})
    values = trial_values(TFDistSweep.model_validate(sweep).spec, 5)
    for role in (Role.CHIEF, Role.WORKER, Role.PS, Role.EVALUATOR):
        found = variables(trial(sweep, 5), role)
        assert found["TFDIST_TRIAL"] == "5"
        assert json.loads(found["TFDIST_PARAMETERS"]) == values
        assert found["WARMUP_STEPS"] == str(values["warmup"])


def test_a_variable_replaces_those_of_the_same_name_of_the_job_its_roles_and_their_templates() -> None:
    # given a template that sets the variable at every level, the higher of which override the lower
    level: dict[str, Any] = {
        "env": [{"name": "X", "value": "0"}, {"name": "KEPT", "value": "1"}],
        "template": {"spec": {"containers": [{"name": "tensorflow", "env": [{"name": "X", "value": "0"}]}]}},
    }
    job = with_one({"env": "X"}, 7, **level, chief=level, worker={"replicas": 1, **level})
    # then every role gets the value of the parameter, and the other variables
    for role in (Role.CHIEF, Role.WORKER):
        found = variables(job, role)
        assert (found["X"], found["KEPT"]) == ("7", "1")


def test_a_sidecar_keeps_its_variable_of_the_same_name() -> None:
    sidecar = {"name": "proxy", "image": "p", "env": [{"name": "X", "value": "0"}]}
    job = with_one({"env": "X"}, 7, template={"spec": {"containers": [sidecar]}})
    assert job["spec"]["template"]["spec"]["containers"] == [sidecar]


def test_other_variables_can_refer_to_those_of_the_trial() -> None:
    # the kubelet expands references to variables that come earlier
    env = [{"name": "RUN", "value": "run-$(TFDIST_TRIAL)"}]
    job = with_one({"env": "X"}, 7, env=env)
    assert [each["name"] for each in job["spec"]["env"]] == ["TFDIST_TRIAL", "TFDIST_PARAMETERS", "X", "RUN"]


def test_the_kubelet_expands_nothing_in_the_values_of_a_trial() -> None:
    text = variables(with_one({"env": "X"}, "$(HOME)/$$x"))["TFDIST_PARAMETERS"]
    assert "$" not in text
    assert json.loads(text) == {"x": "$(HOME)/$$x"}


def test_the_kubelet_expands_nothing_in_an_object_at_a_variable() -> None:
    text = variables(with_one({"env": "X"}, {"path": "$(HOME)", "none": None}))["X"]
    assert "$" not in text
    assert json.loads(text) == {"path": "$(HOME)", "none": None}


def test_values_of_a_list_are_set_by_name() -> None:
    sweep = sweep_manifest(
        parameters=[{"name": "a"}, {"name": "b", "field": "runtime.seed"}],
        search={"method": "List", "list": [{"a": 1, "b": 2}, {"b": 4, "a": 3}]},
    )
    spec = trial(sweep, 1)["spec"]
    assert (spec["training"]["config"]["a"], spec["runtime"]["seed"]) == (3, 4)
