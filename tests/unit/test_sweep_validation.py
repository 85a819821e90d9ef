"""Validation of a sweep: every error has one problem, with the path of its field and the remedy."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.factories import CHECKPOINT, TRAINING
from support.sweeps import PARAMETERS, sweep_manifest

from tfdist.validation import FieldError, ValidationFailed
from tfdist.validation.sweep import parse_sweep, sweep_warnings
from tfdist.validation.sweep_trials import MAX_PARSED

JOB = "spec.template.spec"
RATE = PARAMETERS[0]
LIST = {"method": "List", "list": [{"learningRate": 0.1}]}
RANGE = {"name": "learningRate", "range": {"min": 0.1, "max": 1}}


def problems(sweep: dict[str, Any], **options: Any) -> list[FieldError]:
    try:
        parse_sweep(sweep, **options)
    except ValidationFailed as error:
        return error.problems
    return []


def of_field(name: str, *values: Any) -> list[dict[str, Any]]:
    """Return the parameters of a sweep over one field."""
    return [{"name": "x", "field": name, "values": list(values)}]


@dataclass
class Bad:
    """A sweep with one error: its fields, those of its template, and the path and the message of the error.

    A field of the template that is `...` is removed.
    """

    path: str
    message: str
    spec: dict[str, Any] = field(default_factory=dict)
    template: dict[str, Any] = field(default_factory=dict)
    name: str = "fashion-lr"

    def __str__(self) -> str:
        return f"{self.path}: {self.message[:50]}"

    @property
    def manifest(self) -> dict[str, Any]:
        made = sweep_manifest(self.name, copy.deepcopy(self.template), **copy.deepcopy(self.spec))
        job = made["spec"]["template"]["spec"]
        made["spec"]["template"]["spec"] = {name: value for name, value in job.items() if value is not ...}
        return made


def bad_parameter(path: str, message: str, **parameter: Any) -> Bad:
    return Bad(f"spec.parameters[0]{path}", message, {"parameters": [{"name": "learningRate", **parameter}]})


def bad_target(name: str, message: str, *values: Any) -> Bad:
    return Bad("spec.parameters[0].field", message, {"parameters": of_field(name, *values)})


NO_EVALUATION = {"evaluation": ...}
ASHA = {"method": "Asha", "minSteps": 10}
TWO = [
    {"name": "a", "field": "runtime", "values": [{"seed": 1}]},
    {"name": "b", "field": "runtime.seed", "values": [1]},
]

OF_THE_SWEEP = [
    Bad("metadata.name", "at most 41 characters, 41 plus the number of a trial are the longest", name="a" * 42),
    Bad("metadata.name", "must be a DNS label that begins with a letter", name="1a"),
    Bad("spec.metrics", "unknown field; did you mean metric?", {"metrics": "auc"}),
    Bad("spec.zzz", "unknown field; see `kubectl explain tfdistsweep.spec`", {"zzz": 1}),
    Bad("spec.worker", f"unknown field; did you mean {JOB}.worker?", {"worker": {}}),
    Bad("spec.parallelism", "must be at least 1", {"parallelism": 0}),
    Bad("spec.earlyStopping.minTrials", "requires method Median", {"earlyStopping": {**ASHA, "minTrials": 3}}),
    Bad(
        "spec.metric",
        "Required value: the trials are compared by it",
        {"parameters": [RATE]},
        NO_EVALUATION,
    ),
    Bad(
        "spec.earlyStopping",
        "accuracy is known after training only, by evaluation.mode AfterTraining; use mode Continuous",
        {"earlyStopping": ASHA},
        {"evaluation": {"mode": "AfterTraining"}},
    ),
    Bad(
        "spec.earlyStopping.resume",
        "a stopped trial resumes from its checkpoint; set checkpoint",
        {"earlyStopping": {**ASHA, "resume": True}, "metric": "loss"},
        {"checkpoint": ..., "evaluation": ...},
    ),
]
OF_THE_SEARCH = [
    Bad("spec.search.list", "method List requires list", {"search": {"method": "List"}}),
    Bad(
        "spec.search.trials",
        "Invalid value: 4: the grid has 3 combinations; reduce trials",
        {"parameters": [PARAMETERS[1]], "search": {"method": "Grid", "trials": 4}},
    ),
    Bad(
        "spec.search.trials",
        "the grid has 1000 combinations, and a sweep at most 500 trials",
        {
            "parameters": [{"name": "x", "field": "runtime.seed", "range": {"min": 1, "max": 1000, "step": 1}}],
            "search": {"method": "Grid"},
        },
    ),
    Bad(
        "spec.search.trials",
        "Invalid value: 2: the list has 1 item",
        {"parameters": [RANGE], "search": {**LIST, "trials": 2}},
    ),
    Bad(
        "spec.search.list[0].precision",
        "Required value: the value of parameter precision",
        {"parameters": [RANGE, PARAMETERS[2]], "search": LIST},
    ),
    Bad(
        "spec.search.list[0].learnRate",
        "no parameter has this name; did you mean learningRate?",
        {"parameters": [RANGE], "search": {**LIST, "list": [{"learningRate": 0.1, "learnRate": 0.1}]}},
    ),
    Bad(
        "spec.search.list[1].learningRate",
        'value "x" at training.config.learningRate: Invalid value: "x": must be a number',
        {"parameters": [RANGE], "search": {**LIST, "list": [{"learningRate": 0.1}, {"learningRate": "x"}]}},
    ),
]
OF_PARAMETERS = [
    bad_parameter("", "Required value: set values or range"),
    bad_parameter("", "values and range are mutually exclusive", values=[0.1], range={"min": 0.1, "max": 1}),
    bad_parameter(".values", "different kinds (number and string)", values=[0.1, "0.2"]),
    bad_parameter(".values", "different kinds (boolean and number)", field="runtime.seed", values=[True, 1]),
    bad_parameter(".values", "different kinds (list and object)", field="training.config.data", values=[[], {}]),
    bad_parameter(".values[0]", "must not be null", values=[None]),
    bad_parameter(".range.min", "min must be less than max", range={"min": 1, "max": 0.5}),
    bad_parameter(".range.min", "scale Log requires a min greater", range={"min": -1, "max": 0.5, "scale": "Log"}),
    bad_parameter(".range.step", "step must be greater than 0", range={"min": 0, "max": 0.5, "step": 0}),
    Bad(
        "spec.parameters[0].range.step",
        "step must be greater than 0",
        {"parameters": [{"name": "x", "range": {"min": 0, "max": 1, "step": 0}}], "search": {"method": "Grid"}},
    ),
    bad_parameter(".env", "Forbidden: TF_CONFIG, TFDIST_JOB and names that", env="TF_CONFIG", values=["x"]),
    bad_parameter(".env", "names that begin with TFDIST_ are reserved", env="TFDIST_TRIAL", values=["x"]),
    bad_parameter("", 'value "x" at training.config.learningRate: Invalid value: "x": must be a number', values=["x"]),
    bad_parameter(
        "",
        "value 1.0 at runtime.seed: Invalid value: 1.0: must be an integer, without quotes; set range.step to 1",
        field="runtime.seed",
        range={"min": 1, "max": 1.5},
    ),
    Bad(
        "spec.parameters[0].range.step",
        "Required value: a grid requires a finite number of values",
        {"parameters": [RANGE], "search": {"method": "Grid"}},
    ),
    Bad(
        "spec.parameters[0]",
        "value 0.1 at training.config.lerningRate: unknown field; did you mean learningRate?",
        {"parameters": [{**RANGE, "name": "lerningRate"}]},
    ),
    Bad(
        "spec.parameters[1]",
        'Duplicate value: "training.config.learningRate": parameter learningRate sets it too',
        {"parameters": [RATE, {"name": "b", "field": "training.config.learningRate", "values": [0.1]}]},
    ),
    Bad(
        "spec.parameters[1]",
        'Duplicate value: "X": parameter a sets it too',
        {"parameters": [{"name": name, "env": "X", "values": ["1"]} for name in "ab"]},
    ),
    Bad("spec.parameters[1]", "runtime.seed and runtime of parameter a contain one another", {"parameters": TWO}),
    Bad("spec.parameters[1]", "runtime and runtime.seed of parameter b contain", {"parameters": TWO[::-1]}),
    Bad(
        "spec.parameters[0].field",
        f"{JOB}.args is not an object, so it has no first; set args as a whole",
        {"parameters": of_field("args.first", "-v")},
        {"args": ["-v"], "image": "x"},
    ),
    bad_target("env", "Forbidden: a parameter must not set env: set the variable by env", []),
    bad_target("env.X", "Forbidden: a parameter must not set env", "1"),
    bad_target("task", "every trial trains", "Train"),
    bad_target("runPolicy.suspend", "the sweep suspends its jobs", False),
    bad_target("runPolicy.ttlSecondsAfterFinished", "the sweep deletes its jobs", 1),
    bad_target("runPolicy.managedBy", "all jobs of a sweep have one controller", "a/b"),
    bad_target("evaluation.mode", "evaluated at the same times", "Both"),
    bad_target("evaluation.metric", "trials are compared by one metric", "loss"),
    bad_target("evaluation.goal", "one metric and goal", "Minimize"),
    bad_target("runPolicy", "use a field below runPolicy", {"backoffLimit": 1}),
]
OF_THE_TEMPLATE = [
    Bad(f"{JOB}.task", "task Evaluate has no training to compare", {}, {"task": "Evaluate", "evaluation": {}}),
    Bad(f"{JOB}.runPolicy.suspend", "the sweep suspends its jobs", {}, {"runPolicy": {"suspend": True}}),
    Bad(
        f"{JOB}.runPolicy.ttlSecondsAfterFinished",
        "the sweep deletes its jobs",
        {},
        {"runPolicy": {"ttlSecondsAfterFinished": 10}},
    ),
    Bad(
        f"{JOB}.checkpoint.directory",
        'Invalid value: "/ckpt/run": must contain {name} or {uid}',
        {},
        {"checkpoint": {**CHECKPOINT, "directory": "/ckpt/run"}},
    ),
    Bad(
        f"{JOB}.training.export.directory",
        "must contain {name} or {uid}",
        {},
        {"training": {**TRAINING, "export": {"directory": "/ckpt/models"}}},
    ),
    Bad(
        f"{JOB}.tensorBoard.logDirectory",
        "must contain {name} or {uid}",
        {},
        {"tensorBoard": {"logDirectory": "gs://bucket/{namespace}"}},
    ),
    Bad(f"{JOB}.worker.replicas", "must be at least 1", {}, {"worker": {"replicas": 0}}),
    Bad(f"{JOB}.wroker", "unknown field; did you mean worker?", {}, {"wroker": {}}),
    Bad(f"{JOB}.evaluation", "must not be null", {"metric": "loss"}, {"evaluation": None}),
    Bad(f"{JOB}.oomPolicy", "not supported by this version", {}, {"oomPolicy": {}}),
    Bad(
        f"{JOB}.volumeMounts[0].name",
        "no volume has this name",
        {},
        {"volumeMounts": [{"name": "v", "mountPath": "/v"}]},
    ),
    Bad(
        f"{JOB}.env[1].value",
        "must be a string",
        {},
        {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": 2}]},
    ),
    Bad(
        f"{JOB}.env[1].valueFrom.x",
        "unknown field",
        {},
        {"env": [{"name": "WARMUP_STEPS", "value": "1"}, {"name": "B", "valueFrom": {"x": {}}}]},
    ),
]
BAD = [*OF_THE_SWEEP, *OF_THE_SEARCH, *OF_PARAMETERS, *OF_THE_TEMPLATE]


def test_a_valid_sweep_has_its_defaults() -> None:
    assert parse_sweep(sweep_manifest(metric="auc")).spec.parallelism == 1


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_each_error_is_reported_once_with_its_path_and_message(bad: Bad) -> None:
    found = problems(bad.manifest)
    assert [problem.path for problem in found] == [bad.path], found
    assert bad.message in found[0].message


def test_no_message_is_longer_than_three_lines_of_a_terminal() -> None:
    assert [problem for bad in BAD for problem in problems(bad.manifest) if len(problem.message) > 240] == []


def test_a_value_that_is_too_long_for_a_variable_is_reported_for_it_and_for_the_variable_of_all_values() -> None:
    found = problems(sweep_manifest(parameters=[{"name": "x", "env": "X", "values": ["a" * 40000]}]))
    assert [problem.path for problem in found] == ["spec.parameters", "spec.parameters[0]"]
    assert "the values as TFDIST_PARAMETERS: Too long: 40009 characters" in found[0].message
    assert "at variable X: Too long: 40000 characters" in found[1].message


def test_all_errors_are_reported_at_once() -> None:
    # given errors of the sweep, of a parameter, of a value, and of the template
    parameters = [{"name": "a", "env": "TF_CONFIG", "values": ["x"]}, *of_field("runtime.seed", -1)]
    template = {"strategy": "x", "checkpoint": {"directory": "/ckpt"}}
    search = {"method": "Grid", "trials": 2}
    # then none hides another
    found = problems(sweep_manifest(parameters=parameters, search=search, template=template))
    assert {problem.path for problem in found} == {
        "spec.search.trials",
        "spec.parameters[0].env",
        "spec.parameters[1]",
        f"{JOB}.strategy",
        f"{JOB}.checkpoint.directory",
    }


def test_a_malformed_sweep_does_not_hide_the_malformed_fields_of_its_template() -> None:
    found = problems(sweep_manifest(parallelism=0, template={"wroker": {}}))
    assert {problem.path for problem in found} == {"spec.parallelism", f"{JOB}.wroker"}


def test_each_listed_value_is_checked() -> None:
    found = problems(sweep_manifest(parameters=of_field("runtime.mixedPrecision", "float16", "float8", "float64")))
    assert [problem.path for problem in found] == ["spec.parameters[0]"] * 2
    assert [problem.message.partition(" at ")[0] for problem in found] == ['value "float8"', 'value "float64"']


def test_both_ends_of_a_range_are_checked() -> None:
    parameter = {"name": "x", "field": "worker.replicas", "range": {"min": 1, "max": 20001, "step": 1000}}
    (found,) = problems(sweep_manifest(parameters=[parameter]))
    assert found.message.startswith("value 20001 at worker.replicas: ")


def test_an_error_of_the_template_that_some_values_cause_names_them() -> None:
    parameters = [{"name": "workers", "field": "worker.replicas", "values": [2, 3]}]
    template = {"training": {**TRAINING, "config": {**TRAINING["config"], "globalBatchSize": 64}}}
    (found,) = problems(sweep_manifest(parameters=parameters, template=template))
    assert found.path == f"{JOB}.training.config.globalBatchSize"
    assert found.message.endswith("(with workers 3)")


def test_a_field_that_only_a_parameter_sets_is_not_reported_as_missing_for_an_error_of_the_parameter() -> None:
    template = {"training": {**TRAINING, "config": {"data": {"eval": "/data/eval.tfrecord"}}}}
    (found,) = problems(sweep_manifest(parameters=of_field("training.config.data.train", "/a", 1), template=template))
    assert found.path == "spec.parameters[0].values"


def test_the_number_of_values_that_are_checked_is_bounded() -> None:
    # given hundreds of values that are all wrong, chosen by the search or listed
    wrong = [f"wrong{number}" for number in range(400)]
    listed = {"method": "List", "list": [{"x": value} for value in wrong]}
    # then as many are reported as jobs may be parsed
    grid = sweep_manifest(parameters=of_field("runtime.mixedPrecision", *wrong), search={"method": "Grid"})
    assert len(problems(grid)) == MAX_PARSED
    found = problems(sweep_manifest(parameters=[{"name": "x", "field": "runtime.mixedPrecision"}], search=listed))
    assert len(found) == MAX_PARSED


def test_pod_defaults_and_programs_of_the_installation_apply_to_the_trials() -> None:
    other = sweep_manifest(template={"training": {"program": "other"}})
    assert problems(other)
    assert problems(other, programs=False) == []
    hidden = {"spec": {"containers": [{"name": "tensorflow", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}}
    assert problems(sweep_manifest(), pod_defaults=hidden)


@pytest.mark.parametrize("spec", [None, 1, [], {}, {"template": 1}, {"template": {"spec": []}}, {"parameters": [None]}])
def test_a_manifest_of_any_shape_has_errors(spec: Any) -> None:
    assert problems(sweep_manifest() | {"spec": spec})


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the location of every field and item of a manifest."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from places(item, (*at, key))


@pytest.mark.parametrize("junk", [None, -1, 0.5, "x", [], {}, [None], {"a": None}, float("nan"), 10**400], ids=repr)
def test_any_value_of_any_field_has_no_other_effect_than_errors(junk: Any) -> None:
    # given a sweep that uses each kind of parameter, and variables at two levels
    variables: dict[str, Any] = {"env": [{"name": "WARMUP_STEPS", "value": "1"}], "chief": {"env": [{"name": "B"}]}}
    sweep = sweep_manifest(metric="auc", search={"method": "Random", "trials": 3}, template=variables)
    assert problems(sweep) == []
    for place in places(copy.deepcopy(sweep)):
        # when any field has another value
        changed = copy.deepcopy(sweep)
        parent: Any = changed
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = junk
        before = copy.deepcopy(changed)
        # then it is valid or has errors, and stays as it is
        problems(changed)
        assert repr(changed) == repr(before)


def test_a_manifest_that_is_nested_too_deep_has_one_error() -> None:
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    (found,) = problems(sweep_manifest(parameters=of_field("training.config.x", deep)))
    assert "nested deeper than" in found.message


def test_an_unknown_field_of_metadata_is_an_error() -> None:
    sweep = sweep_manifest()
    sweep["metadata"]["lables"] = {}
    (found,) = problems(sweep)
    assert (found.path, "labels" in found.message) == ("metadata.lables", True)


@pytest.mark.parametrize("metric", ["loss", "val_loss", "mean_absolute_error"])
def test_a_loss_without_a_goal_is_a_warning(metric: str) -> None:
    (found,) = sweep_warnings(parse_sweep(sweep_manifest(metric=metric)))
    assert (found.path, "set goal: Minimize" in found.message) == ("spec.goal", True)


@pytest.mark.parametrize("fields", [{}, {"metric": "loss", "goal": "Maximize"}, {"metric": "loss", "goal": "Minimize"}])
def test_a_metric_whose_goal_is_clear_is_no_warning(fields: dict[str, Any]) -> None:
    assert sweep_warnings(parse_sweep(sweep_manifest(**fields))) == []


def test_the_goal_of_the_evaluation_is_that_of_its_metric() -> None:
    evaluation = {"mode": "Continuous", "metric": "loss", "goal": "Minimize"}
    assert sweep_warnings(parse_sweep(sweep_manifest(template={"evaluation": evaluation}))) == []


def test_warnings_about_the_jobs_are_those_of_the_template() -> None:
    sweep = sweep_manifest(template={"template": {"spec": {"hostNetwork": True}}})
    (found,) = sweep_warnings(parse_sweep(sweep))
    assert found.path == f"{JOB}.template.spec.hostNetwork"
