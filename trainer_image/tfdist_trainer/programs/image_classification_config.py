"""The configuration of `image_classification`; `docs/trainer.md` says the same to its users."""

from pathlib import PurePath
from typing import Annotated, Literal

import pydantic
from pydantic import Field

from tfdist_trainer.data.files import Split, expand
from tfdist_trainer.errors import ConfigurationError
from tfdist_trainer.programs.config import PATH, ProgramConfig, StrictModel


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], pydantic.BeforeValidator(_as_list), Field(min_length=1)]
"""One file pattern or a list of them."""

Format = Literal["npz", "tfrecord"]


class ImageData(StrictModel):
    """Where the images are.

    `.npz` holds the arrays `image`, uint8 of shape [examples, *imageShape] (or without the last axis when it
    is 1), and `label`, integers of shape [examples]. TFRecord holds `tf.train.Example`s with `image`, one
    string of raw uint8 pixels, and `label`, one int64.
    """

    train: Patterns | None = None
    """Files to train on, as one pattern or a list, for example `/data/train-*.tfrecord`."""
    eval: Patterns | None = None
    """Files to evaluate on."""
    format: Format | None = None
    """`npz` or `tfrecord`. By default the ending of the pattern says which."""
    compression: Literal["None", "GZIP"] | None = None
    """Compression of TFRecord files. By default `GZIP` for names that end in `.gz`, else none."""

    def format_of(self, name: str) -> Format:
        """Return the format of the file or pattern `name`."""
        return self.format or ("npz" if PurePath(name).suffix == ".npz" else "tfrecord")

    def is_gzip(self, name: str) -> bool:
        """Return whether the TFRecord file `name` is compressed."""
        return name.endswith(".gz") if self.compression is None else self.compression == "GZIP"


class ImageClassificationConfig(ProgramConfig):
    """Classify images of one size."""

    data: ImageData
    """Files with examples."""
    image_shape: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1, le=4)]] = (
        28,
        28,
        1,
    )
    """Height, width and channels of every image."""
    classes: int = Field(default=10, ge=2)
    """Labels are 0 to `classes` - 1."""
    model: Literal["mlp", "cnn"] = "cnn"
    """`mlp`: one hidden layer of 128 units. `cnn`: two convolutions of stride 2, then one of 64 units."""
    batch_normalization: bool = False
    """Normalize after each hidden layer."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Fraction of hidden units that a training step leaves out before the last layer."""

    def files(self, split: Split) -> tuple[str, ...]:
        """Return the files of `split`; see the base class."""
        field = f"{PATH}.data.{split}"
        patterns = self.data.train if split is Split.TRAIN else self.data.eval
        if not patterns:
            needed = "train" if split is Split.TRAIN else "evaluate"
            raise ConfigurationError(f"{field}: is absent, and there is nothing to {needed} on without it")
        return expand(patterns, field)
