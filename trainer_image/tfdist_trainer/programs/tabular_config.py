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
    """Is subtracted."""
    deviation: float = Field(gt=0)
    """Is divided by."""


class TabularConfig(FilesConfig):
    """Predict a class or a number from columns of numbers and categories.

    CSV files have a header; the columns that are named are read, others may hold anything. A value that is missing
    is a bad record. `.npz` files have an array for each column, TFRecord files a feature.
    """

    label: ColumnName = "label"
    """Column to predict."""
    classes: Annotated[int, Field(ge=2)] | Annotated[tuple[Category, ...], Field(min_length=2)] | None = None
    """To predict a class: how many there are, when labels are 0, 1 ..., or the list of the labels' names. Absent
    predicts a number."""
    numeric: Annotated[dict[ColumnName, Width], pydantic.BeforeValidator(_as_widths)] = Field(default_factory=dict)
    """Columns of numbers, as a list; or by name the length of each, for arrays in `.npz` and TFRecord files."""
    categorical: dict[ColumnName, Width | Annotated[tuple[Category, ...], Field(min_length=1)] | None] = Field(
        default_factory=dict
    )
    """Columns of categories, each with the list of them; or with a number of buckets that they are hashed to; or with
    nothing (`~`), and training collects them from all its data. One that training has not seen is like no other."""
    normalize: Literal["Auto", "None"] | dict[ColumnName, Statistics] = "Auto"
    """`Auto` subtracts the mean of each column of numbers and divides by its standard deviation, over all training
    data of all workers; or give both by column; `None` takes numbers as they are. A number to predict is scaled the
    same way inside the model, and predictions and metrics are in its own unit."""
    hidden_units: tuple[Width, ...] = (64, 32)
    """Units of each hidden layer."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Fraction of the last hidden layer's units that a training step leaves out."""

    @property
    def task(self) -> Task:
        """What is predicted."""
        return "regression" if self.classes is None else "classification"

    @pydantic.model_validator(mode="after")
    def _columns_make_sense(self) -> Self:
        names = [*self.numeric, *self.categorical, self.label, *([self.data.weight] if self.data.weight else [])]
        if len(names) < 2 or not (self.numeric or self.categorical):  # noqa: PLR2004  label and feature
            raise ValueError("name at least one column in numeric or categorical")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"column {twice[0]!r} is there twice")
        if isinstance(self.normalize, dict):
            wanted = {*self.numeric, *([self.label] if self.classes is None else [])}
            if missing := sorted(wanted - set(self.normalize)):
                raise ValueError(f"normalize lacks column {missing[0]!r}")
        return self
