"""The configuration of `text_classification`; `docs/reference/trainer.md` is made of it."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, Tag

from tfdist.programs.base import INTEGER, LIST, BrokenRule, alternatives
from tfdist.programs.data import ColumnName, FilesConfig, repeated_columns

Name = Annotated[str, Field(min_length=1)]


class TextClassificationConfig(FilesConfig):
    """Text classification.

    The columns are a text and a label, in CSV, TSV, JSON lines, Parquet, `.npz` or TFRecord files; or each text is a
    file in the folder of its class (format `text`), as for `keras.utils.text_dataset_from_directory`. Texts become
    words as by default in `keras.layers.TextVectorization` (`lower_and_strip_punctuation`): ASCII letters are converted
    to lower case, ASCII punctuation is removed, and the rest is split at whitespace. So `don't` is the word `dont`.
    """

    text: ColumnName = "text"
    """Column of the text, UTF-8."""
    label: ColumnName = "label"
    """Column of the class."""
    classes: Annotated[
        Annotated[int, Field(ge=2), Tag(INTEGER)] | Annotated[tuple[Name, ...], Field(min_length=2), Tag(LIST)],
        alternatives("must be an integer or a list"),
    ] = 2
    """Number of classes if labels are 0, 1 ..., or the list of class names."""
    vocabulary_size: int = Field(default=20_000, ge=1, le=1_000_000)
    """Size of the vocabulary: the most frequent words in the training data of all workers."""
    max_sequence_length: int = Field(default=200, ge=1, le=10_000)
    """Maximum number of words of a text. Longer texts are truncated, shorter texts are padded and masked."""
    embedding_dim: int = Field(default=64, ge=1)
    """Dimension of the word embedding."""
    model: Literal["averagePooling", "conv"] = "averagePooling"
    """`averagePooling`: global average pooling of the word embeddings, then a hidden layer. `conv`:
    one-dimensional convolution over five words with global max pooling, then a hidden layer (Kim, arXiv 1408.5882)."""
    hidden_units: int = Field(default=64, ge=1)
    """Units of the hidden layer, and filters of `conv`."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate of the hidden layer."""

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        columns = {"text": self.text, "label": self.label, "data.weight": self.data.weight}
        yield from repeated_columns((tuple(name.split(".")), column) for name, column in columns.items())
