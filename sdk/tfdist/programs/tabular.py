"""The configuration of `tabular`; `docs/reference/trainer.md` is made of it."""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, Tag, TypeAdapter

from tfdist.programs.base import (
    INTEGER,
    LIST,
    MAP,
    BrokenRule,
    Location,
    StrictModel,
    alternatives,
    union_error,
)
from tfdist.programs.data import ColumnName, FilesConfig, repeated_columns
from tfdist.programs.metric_names import Task

Width = Annotated[int, Field(ge=1, le=1_000_000)]
Category = Annotated[str, Field(min_length=1)]
_INTEGER_OR_LIST: Final = alternatives("must be an integer or a list")
_COLUMN_NAMES: Final = TypeAdapter(tuple[ColumnName, ...])


def _as_widths(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return dict.fromkeys(_COLUMN_NAMES.validate_python(value), 1)
    if not isinstance(value, dict):
        raise union_error("must be an object or a list")
    return value


class Statistics(StrictModel, defer_build=True):
    """Mean and standard deviation of one column."""

    mean: float
    """Mean, which is subtracted."""
    deviation: float = Field(gt=0)
    """Standard deviation, which is divided by."""


class TabularConfig(FilesConfig):
    """Classification or regression on numeric and categorical columns.

    CSV files have a header, and the objects of JSON lines a field for each column; columns that are not configured are
    ignored. A missing value makes a bad record. `.npz` files have an array for each column, TFRecord files a feature.
    """

    label: ColumnName = "label"
    """Column to predict."""
    classes: (
        Annotated[
            Annotated[int, Field(ge=2), Tag(INTEGER)] | Annotated[tuple[Category, ...], Field(min_length=2), Tag(LIST)],
            _INTEGER_OR_LIST,
        ]
        | None
    ) = None
    """For classification: the number of classes if labels are 0, 1 ..., or the list of class names. Regression if
    absent."""
    numeric: Annotated[dict[ColumnName, Width], BeforeValidator(_as_widths)] = Field(default_factory=dict)
    """Numeric columns, as a list; or a map from name to vector length, for arrays in `.npz` and TFRecord files and
    lists in JSON lines and Parquet."""
    categorical: dict[
        ColumnName,
        Annotated[
            Annotated[Width, Tag(INTEGER)] | Annotated[tuple[Category, ...], Field(min_length=1), Tag(LIST)],
            _INTEGER_OR_LIST,
        ]
        | None,
    ] = Field(default_factory=dict)
    """Categorical columns, each with the list of its categories, or a number of hash buckets, or null (`~`) to collect
    the categories from the training data of all workers. Categories not seen in training share one out-of-vocabulary
    index (0), and so do empty strings of a hashed column."""
    normalize: Annotated[
        Literal["Auto", "None"] | Annotated[dict[ColumnName, Statistics], Tag(MAP)],
        alternatives("must be 'Auto', 'None' or an object"),
    ] = "Auto"
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

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        if not (self.numeric or self.categorical):
            yield BrokenRule(("numeric",), "no column is set; set at least one in numeric or categorical")
        yield from repeated_columns(self._columns())
        if isinstance(self.normalize, dict):
            normalized = [*self.numeric, *([self.label] if self.classes is None else [])]
            for name in normalized:
                if name not in self.normalize:
                    yield BrokenRule(("normalize", name), "Required value: the mean and deviation of this column")

    def _columns(self) -> Iterator[tuple[Location, str | None]]:
        for field, columns in (("numeric", self.numeric), ("categorical", self.categorical)):
            yield from (((field, name), name) for name in columns)
        yield ("label",), self.label
        yield ("data", "weight"), self.data.weight
