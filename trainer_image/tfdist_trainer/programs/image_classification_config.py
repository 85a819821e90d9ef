"""The configuration of `image_classification`; `docs/reference/trainer.md` is made of it."""

from typing import Annotated, Literal

from pydantic import Field

from tfdist_trainer.programs.data_config import FilesConfig

Size = Annotated[int, Field(ge=1)]


class ImageClassificationConfig(FilesConfig):
    """Classify images of one size.

    The columns are `image`, uint8 of `imageShape`, and `label`, an integer. In TFRecord files an image is one string
    of raw pixels; in `.npz` files its last axis may be absent when it is 1; idx files have images, and labels in a
    file beside them that is named alike.
    """

    image_shape: tuple[Size, Size, Annotated[int, Field(ge=1, le=4)]] = (28, 28, 1)
    """Height, width and channels of every image."""
    classes: int = Field(default=10, ge=2)
    """Labels are 0 to `classes` - 1."""
    model: Literal["mlp", "cnn", "resnet"] | Annotated[str, Field(pattern=r"\.keras$")] = "cnn"
    """`mlp`: one hidden layer of 128 units. `cnn`: two convolutions of stride 2, then one of 64 units. `resnet`: the
    residual network for small images of He et al. (arXiv 1512.03385, 4.2). Or a file that Keras has saved, whose name
    ends in `.keras`: a model from images to logits, trained on from its weights."""
    resnet_blocks: int = Field(default=3, ge=1, le=18)
    """Blocks in each of the three stages of `resnet`: 3 make 20 layers, 9 make 56."""
    batch_normalization: bool = False
    """Normalize after each hidden layer; `resnet` always does."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Fraction of hidden units that a training step leaves out before the last layer."""
