"""The models of TFDistSweep: what they accept, their defaults, and the schema that they give."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from support.sweeps import sweep_manifest

from tfdist.api.crd import structural
from tfdist.api.resource import MAX_NAME_LENGTH
from tfdist.api.sweep import TFDistSweep, TFDistSweepSpec
from tfdist.api.sweep_parameters import SweepParameter
from tfdist.api.sweep_resource import MAX_SWEEP_NAME, MAX_TRIALS, trial_name
from tfdist.api.sweep_status import TFDistSweepStatus


def spec(**fields: Any) -> TFDistSweepSpec:
    return TFDistSweep.model_validate(sweep_manifest(**fields)).spec


def fields_of(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of a schema and of the objects in it, by path; those of the job's template are the job's."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}.{name}", field
        if name != "template":
            yield from fields_of(field, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from fields_of(schema[inner], path)


def test_a_sweep_has_defaults_for_all_but_parameters_and_template() -> None:
    found = spec()
    assert (found.search.method, found.search.trials, found.search.seed) == ("Random", None, 0)
    assert (found.parallelism, found.max_failed_trials, found.keep_best) == (1, 3, 1)
    assert (found.clean_trials, found.suspend, found.early_stopping) == ("Stopped", False, None)


def test_metric_and_goal_are_those_of_the_evaluation_of_the_template() -> None:
    found = spec(template={"evaluation": {"mode": "Continuous", "metric": "loss", "goal": "Minimize"}})
    assert (found.metric_name, found.maximizes, found.evaluates) == ("loss", False, True)


def test_the_goal_of_another_metric_is_maximize() -> None:
    evaluation = {"mode": "Continuous", "metric": "loss", "goal": "Minimize"}
    assert spec(metric="auc", template={"evaluation": evaluation}).maximizes


def test_a_sweep_has_no_metric_without_its_own_and_without_evaluation() -> None:
    found = spec(template={"evaluation": None})
    assert (found.metric_name, found.evaluates) == (None, False)


@pytest.mark.parametrize(
    ("fields", "target"),
    [
        ({}, ("training", "config", "rate")),
        ({"field": "runtime.seed"}, ("runtime", "seed")),
        ({"env": "RATE"}, ("env", "RATE")),
    ],
)
def test_a_parameter_is_set_in_the_configuration_or_at_its_field_or_variable(
    fields: dict[str, Any], target: tuple[str, ...]
) -> None:
    assert SweepParameter(name="rate", **fields).target == target


@pytest.mark.parametrize("bound", [float("nan"), float("inf"), "1", True, None, 1e16])
def test_a_bound_of_a_range_is_a_finite_number(bound: object) -> None:
    with pytest.raises(ValidationError, match="must be a number between"):
        SweepParameter.model_validate({"name": "rate", "range": {"min": 0, "max": bound}})


def test_whole_numbers_of_a_manifest_stay_integers() -> None:
    (parameter,) = spec(parameters=[{"name": "a", "range": {"min": 0, "max": 9.5, "step": 1}}]).parameters
    assert parameter.range is not None
    assert [type(x) for x in (parameter.range.min, parameter.range.max, parameter.range.step)] == [int, float, int]


def test_the_name_of_every_trial_is_a_valid_name_of_a_job() -> None:
    assert len(trial_name("s" * MAX_SWEEP_NAME, MAX_TRIALS - 1)) == MAX_NAME_LENGTH


@pytest.mark.parametrize("model", [TFDistSweepSpec, TFDistSweepStatus])
def test_every_field_is_described_and_has_a_type(model: type[BaseModel]) -> None:
    found = list(fields_of(structural(model), model.__name__))
    assert len(found) > 30
    assert [path for path, field in found if not field.get("description")] == []
    open_fields = [path for path, field in found if "type" not in field]
    assert open_fields == []


def test_the_template_has_the_schema_of_a_job_with_its_rules() -> None:
    template = structural(TFDistSweepSpec)["properties"]["template"]["properties"]["spec"]
    assert {"training", "worker", "x-kubernetes-validations"} <= template["properties"].keys() | template.keys()
