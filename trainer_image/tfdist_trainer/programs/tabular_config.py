"""The configuration of `tabular`; `docs/reference/trainer.md` is made of it."""

from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

from tfdist_trainer.metrics.names import Task
from tfdist_trainer.programs.config import StrictModel
from tfdist_trainer.programs.data_config import ColumnName, FilesConfig

Width = Annotated[int, Field(ge=1, le=1_000_000)]
Category = Annotated[str, Field(min_length=1)]


def _as_widths(value: object) -> object:
    return dict.fromkeys(value, 1) if isinstance(value, list | tuple) else value


class Statistics(StrictModel):
    """Mean and standard deviation of one column."""

    mean: float
    """Mean, which is subtracted."""
    deviation: float = Field(gt=0)
    """Standard deviation, which is divided by."""


class TabularConfig(FilesConfig):
    """Classification or regression on numeric and categorical columns.

    CSV files have a header; columns that are not configured are ignored. A missing value makes a bad record. `.npz`
    files have an array for each column, TFRecord files a feature.
    """

    label: ColumnName = "label"
    """Column to predict."""
    classes: Annotated[int, Field(ge=2)] | Annotated[tuple[Category, ...], Field(min_length=2)] | None = None
    """For classification: the number of classes if labels are 0, 1 ..., or the list of class names. Regression if
    absent."""
    numeric: Annotated[
        dict[ColumnName, Width],
        pydantic.BeforeValidator(_as_widths, json_schema_input_type=dict[ColumnName, Width] | list[ColumnName]),
    ] = Field(default_factory=dict)
    """Numeric columns, as a list; or a map from name to vector length, for arrays in `.npz` and TFRecord files."""
    categorical: dict[ColumnName, Width | Annotated[tuple[Category, ...], Field(min_length=1)] | None] = Field(
        default_factory=dict
    )
    """Categorical columns, each with the list of its categories, or a number of hash buckets, or null (`~`) to collect
    the categories from the training data of all workers. Categories not seen in training share one out-of-vocabulary
    index (0), and so do empty strings of a hashed column."""
    normalize: Literal["Auto", "None"] | dict[ColumnName, Statistics] = "Auto"
    """Normalization of numeric columns. `Auto` subtracts the mean and divides by the standard deviation over the
    training data of all workers; or give both for each column; `None` disables it. A regression label is normalized
    inside the model, so predictions and metrics are in the unit of the label."""
    hidden_units: tuple[Width, ...] = (64, 32)
    """Units of each hidden layer."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate after the last hidden layer."""

    @property
    def task(self) -> Task:
        """The kind of prediction."""
        return "regression" if self.classes is None else "classification"

    @pydantic.model_validator(mode="after")
    def _columns_make_sense(self) -> Self:
        names = [*self.numeric, *self.categorical, self.label, *([self.data.weight] if self.data.weight else [])]
        if len(names) < 2 or not (self.numeric or self.categorical):  # noqa: PLR2004  label and feature
            raise ValueError("name at least one column in numeric or categorical")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"column {twice[0]!r} is given twice")
        if isinstance(self.normalize, dict):
            wanted = {*self.numeric, *([self.label] if self.classes is None else [])}
            if missing := sorted(wanted - set(self.normalize)):
                raise ValueError(f"normalize lacks column {missing[0]!r}")
        return self
