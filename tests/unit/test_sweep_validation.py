"""Validation of a sweep: every error has one problem, with the path of its field and the remedy."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from support.bad_sweeps import BAD, JOB, NO_EVALUATION, NOT_COMPARED, Bad, of_field
from support.factories import TRAINING
from support.sweeps import sweep_manifest

from tfdist.validation import FieldError, ValidationFailed
from tfdist.validation.sweep import parse_sweep, sweep_warnings
from tfdist.validation.sweep_trials import MAX_PARSED


def problems(sweep: dict[str, Any], **options: Any) -> list[FieldError]:
    try:
        parse_sweep(sweep, **options)
    except ValidationFailed as error:
        return error.problems
    return []


def test_a_valid_sweep_has_its_defaults() -> None:
    assert parse_sweep(sweep_manifest(metric="auc")).spec.parallelism == 1


def test_a_value_of_a_parameter_may_have_nulls_in_it_but_not_be_null() -> None:
    search = {"method": "List", "list": [{"x": {"layers": None}}, {"x": [None]}]}
    assert not problems(sweep_manifest(parameters=[{"name": "x", "env": "X"}], search=search))
    assert not problems(sweep_manifest(parameters=[{"name": "x", "env": "X", "values": [{"layers": None}]}]))
    search["list"] = [{"x": None}]
    found = problems(sweep_manifest(parameters=[{"name": "x", "env": "X"}], search=search))
    assert [problem.path for problem in found] == ["spec.search.list[0].x"]


def test_a_list_needs_no_metric() -> None:
    assert not problems(Bad("", "", NOT_COMPARED, NO_EVALUATION).manifest)


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


def test_of_a_large_sweep_fewer_jobs_are_checked_than_of_a_small_one() -> None:
    """Given bad second and last values; then the last one is found only if the jobs up to it are small."""
    values = [0, -1, *range(1, 28), -2]
    for size, found_values in ((0, ["-1", "-2"]), (100_000, ["-1"])):
        template = {"template": {"spec": {"nodeName": "x" * size}}}
        found = problems(sweep_manifest(parameters=of_field("runtime.seed", *values), template=template))
        assert [problem.message.split()[1] for problem in found] == found_values


def test_a_job_that_its_values_make_too_large_is_reported() -> None:
    parameters = [{"name": "x", "values": ["$" * 100_000]}]
    assert f"{JOB}: Too large" in str(problems(sweep_manifest(parameters=parameters))[0])


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
