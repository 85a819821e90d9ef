"""The configuration of `image_classification`; `docs/reference/trainer.md` is made of it."""

from typing import Annotated, Literal

from pydantic import Field

from tfdist.programs.base import alternatives
from tfdist.programs.data import FilesConfig

Size = Annotated[int, Field(ge=1)]


class ImageClassificationConfig(FilesConfig):
    """Image classification with a fixed image size.

    The columns are `image`, uint8 of `imageShape`, and `label`, an integer. In TFRecord files an image is one string
    of raw pixels; in `.npz` files a last axis of size 1 may be absent; idx files have images, and labels in a second
    file with a matching name.
    """

    image_shape: tuple[Size, Size, Annotated[int, Field(ge=1, le=4)]] = (28, 28, 1)
    """Height, width and channels of every image."""
    classes: int = Field(default=10, ge=2)
    """Number of classes; labels are 0 to `classes` - 1."""
    model: Annotated[
        Literal["mlp", "cnn", "resnet"] | Annotated[str, Field(pattern=r"\.keras$")],
        alternatives(r"must be 'mlp', 'cnn', 'resnet' or a string that matches \.keras$"),
    ] = "cnn"
    """`mlp`: one hidden layer of 128 units. `cnn`: two convolutions of stride 2, then one of 64 units. `resnet`: the
    residual network for small images of He et al. (arXiv 1512.03385, 4.2). Or the path of a saved Keras model that
    ends in `.keras`: from images to logits; training starts from its weights."""
    resnet_blocks: int = Field(default=3, ge=1, le=18)
    """Blocks in each of the three stages of `resnet`: 3 make 20 layers, 9 make 56."""
    batch_normalization: bool = False
    """Batch normalization after each hidden layer; `resnet` always has it."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate before the last layer."""
