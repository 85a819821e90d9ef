"""The configuration of `text_classification`; `docs/reference/trainer.md` is made of it."""

from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

from tfdist_trainer.programs.data_config import ColumnName, FilesConfig

Name = Annotated[str, Field(min_length=1)]


class TextClassificationConfig(FilesConfig):
    """Tell the class of texts.

    The columns are a text and a label, in CSV, `.npz` or TFRecord files. A text is taken apart into words: what stands
    between anything but letters and digits, in lower case.
    """

    text: ColumnName = "text"
    """Column with the text, UTF-8."""
    label: ColumnName = "label"
    """Column with the class."""
    classes: Annotated[int, Field(ge=2)] | Annotated[tuple[Name, ...], Field(min_length=2)] = 2
    """How many classes there are, when labels are 0, 1 ..., or the list of the labels' names."""
    vocabulary_size: int = Field(default=20_000, ge=1, le=1_000_000)
    """Words that are told apart: the most frequent of all training data of all workers."""
    length: int = Field(default=200, ge=1, le=10_000)
    """Words of a text that are read; shorter texts are masked to their length."""
    embedding: int = Field(default=64, ge=1)
    """Length of the vector of each word."""
    model: Literal["pooling", "conv"] = "pooling"
    """`pooling`: the mean of the words' vectors, then a hidden layer. `conv`: the largest answers of filters over five
    words, then the same (Kim, arXiv 1408.5882)."""
    hidden_units: int = Field(default=64, ge=1)
    """Units of the hidden layer, and filters of `conv`."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Fraction of hidden units that a training step leaves out."""

    @pydantic.model_validator(mode="after")
    def _columns_differ(self) -> Self:
        if len({self.text, self.label, self.data.weight}) < 3:  # noqa: PLR2004  as many as are named
            raise ValueError("text, label and data.weight must be different columns")
        return self
