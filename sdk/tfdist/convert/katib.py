"""Model of Katib's Experiment, `kubeflow.org/v1beta1`, as far as the conversion reads it.

Types are checked as strictly as by the API server. Unknown fields are allowed, because the conversion reports them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from tfdist.convert.result import CannotConvert, Json
from tfdist.convert.tfjob import Meta, without_nulls
from tfdist.validation import FieldError
from tfdist.validation.model_errors import field_error


class _KatibModel(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="allow", alias_generator=to_camel)


class Setting(_KatibModel):
    """A setting of an algorithm."""

    name: str = ""
    value: str = ""


class Algorithm(_KatibModel):
    """The algorithm of the search, or of early stopping."""

    algorithm_name: str = ""
    algorithm_settings: list[Setting] = Field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """The settings by name."""
        return {setting.name: setting.value for setting in self.algorithm_settings}


class MetricStrategy(_KatibModel):
    """Which of the values of a metric counts: `min`, `max` or `latest`."""

    name: str = ""
    value: str = ""


class Objective(_KatibModel):
    """The metric that compares the trials."""

    type: str
    goal: float | None = None
    objective_metric_name: str
    additional_metric_names: list[str] = Field(default_factory=list)
    metric_strategies: list[MetricStrategy] = Field(default_factory=list)


class FeasibleSpace(_KatibModel):
    """The values of a parameter; numbers are strings."""

    min: str = ""
    max: str = ""
    step: str = ""
    values: list[str] = Field(default_factory=list, alias="list")
    distribution: str = ""


class Parameter(_KatibModel):
    """A parameter of the search."""

    name: str
    parameter_type: str
    feasible_space: FeasibleSpace


class TrialParameter(_KatibModel):
    """A name that the template of the trials uses for a parameter."""

    name: str
    reference: str


class KatibTrialTemplate(_KatibModel):
    """The template of the trials."""

    retain: bool = False
    trial_parameters: list[TrialParameter] = Field(default_factory=list)
    trial_spec: dict[str, Any]


class ExperimentSpec(_KatibModel):
    """Specification of an Experiment."""

    objective: Objective
    algorithm: Algorithm
    early_stopping: Algorithm | None = None
    parallel_trial_count: int | None = None
    max_trial_count: int | None = None
    max_failed_trial_count: int | None = None
    parameters: list[Parameter]
    trial_template: KatibTrialTemplate


class Experiment(_KatibModel):
    """An Experiment."""

    metadata: Meta
    spec: ExperimentSpec


def read(manifest: Mapping[str, Any]) -> tuple[Experiment, Json]:
    """Return the parsed Experiment, and its JSON without nulls.

    Raises:
        CannotConvert: fields are missing or have the wrong type.
    """
    raw = without_nulls(manifest)
    try:
        return Experiment.model_validate(raw), raw
    except ValidationError as error:
        problems: list[FieldError] = [field_error(error_detail, Experiment) for error_detail in error.errors()]
        raise CannotConvert(problems) from None


def unknown(experiment: Experiment) -> Iterator[str]:
    """Yield the paths of the fields that the model does not have."""
    spec = experiment.spec
    parts: list[tuple[str, BaseModel]] = [
        ("spec", spec),
        ("spec.objective", spec.objective),
        ("spec.trialTemplate", spec.trial_template),
    ]
    for path, part in parts:
        yield from (f"{path}.{name}" for name in part.model_extra or {})
