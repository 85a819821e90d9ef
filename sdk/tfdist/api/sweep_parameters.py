"""The parameters of a sweep: what is varied, and where each value is set in the job of a trial."""

import math
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from tfdist.api import patterns
from tfdist.api.base import OPEN_VALUE, ApiModel, CrossFieldRule
from tfdist.api.sweep_resource import MAX_TRIALS

MAX_NUMBER: Final = 1e15
"""Largest absolute value in a range: below it a double represents every whole number."""
_NUMBER: Final = f"must be a number between -{MAX_NUMBER:.0e} and {MAX_NUMBER:.0e}, without quotes"


def _number(value: Any) -> int | float:
    """Return a number as given: a whole number stays an integer.

    Raises:
        PydanticCustomError: it is not a finite number, or too large.
    """
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MAX_NUMBER:
        return value
    raise PydanticCustomError("number", _NUMBER)  # also for NaN, which is below no bound


Number = Annotated[
    int | float,
    PlainValidator(_number),
    WithJsonSchema({"type": "number", "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}),
]


def _value(value: Any) -> Any:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        raise PydanticCustomError("value", "must be a string, boolean, finite number, list or object")
    return value


Value = Annotated[Any, AfterValidator(_value), Field(json_schema_extra=OPEN_VALUE)]
"""Value of a parameter, as in YAML."""


class Scale(StrEnum):
    """Scale on which random values of a range are uniform."""

    LINEAR = "Linear"
    LOG = "Log"


class ParameterRange(ApiModel):
    """A range of numbers."""

    cross_field_rules = (
        CrossFieldRule(
            "self.min < self.max",
            "min must be less than max; change one of them",
            ".min",
            lambda self: self.min < self.max,
        ),
        CrossFieldRule(
            "self.scale != 'Log' || self.min > 0.0",
            "scale Log requires a min greater than 0; change min, or use scale Linear",
            ".min",
            lambda self: self.scale is not Scale.LOG or self.min > 0,
        ),
        CrossFieldRule(
            "!has(self.step) || self.step > 0.0",
            "step must be greater than 0; change it, or remove it",
            ".step",
            lambda self: self.step is None or self.step > 0,
        ),
    )

    min: Number
    """Smallest value."""
    max: Number
    """Largest value. With `step`, the largest value is the last one that is not above it."""
    step: Number | None = None
    """Difference between neighbouring values, which begin with `min`. If it and `min` are whole numbers, so are all
    values: use `step: 1` for integers. Defaults to none: any number of the range. Required by a grid."""
    scale: Scale = Scale.LINEAR
    """Scale on which random values are uniform. `Linear`, or `Log`: each power of ten is as likely as the next, as for
    learning rates. `Log` requires a `min` greater than 0."""


class SweepParameter(ApiModel):
    """A parameter that the trials vary.

    One of `values` and `range` is required, except by search method `List`. No two parameters set the same field or
    variable, or a field inside of the other's.
    """

    cross_field_rules = (
        CrossFieldRule(
            "!has(self.values) || !has(self.range)",
            "values and range are mutually exclusive; keep one of them",
            "",
            lambda self: self.values is None or self.range is None,
            on_server=False,
        ),
        CrossFieldRule(
            "!has(self.field) || !has(self.env)",
            "field and env are mutually exclusive; keep one of them",
            "",
            lambda self: self.field is None or self.env is None,
        ),
    )

    name: Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=patterns.PARAMETER)]
    """Name of the parameter in the results, unique in the sweep. Without `field` and `env`, its values are set at
    `training.config.NAME` of the template."""
    field: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=patterns.FIELD)] | None = None
    """Field of the job's specification that its values are set at, such as `runtime.mixedPrecision`; objects above it
    are created. Must not be `task`, `env`, `mode`, `metric` or `goal` of `evaluation`, or `suspend`,
    `ttlSecondsAfterFinished` or `managedBy` of `runPolicy`. Defaults to `training.config.NAME`. Cannot be used if `env`
    is set."""
    env: Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=patterns.VARIABLE)] | None = None
    """Environment variable of all replicas that its values are set at: strings as they are, other values as JSON. It
    replaces variables of the same name in the template. `TF_CONFIG` and names that begin with `TFDIST_` are reserved.
    Cannot be used if `field` is set."""
    values: Annotated[list[Value] | None, Field(min_length=1, max_length=MAX_TRIALS)] = None
    """Values to choose from, all of the same kind: numbers, strings, booleans, lists or objects. Cannot be used if
    `range` is set."""
    range: ParameterRange | None = None
    """Range of numbers to choose from. Cannot be used if `values` is set."""

    @property
    def target(self) -> tuple[str, ...]:
        """Location of its values below `spec` of a job: `("training", "config", "learningRate")`; of a variable too."""
        if self.env is not None:
            return ("env", self.env)
        return tuple(self.field.split(".")) if self.field else ("training", "config", self.name)
