"""The configuration of `image_classification`; `docs/reference/trainer.md` is made of it."""

from collections.abc import Iterator
from typing import Annotated, Final, Literal

from pydantic import Field

from tfdist.programs.base import BrokenRule, alternatives
from tfdist.programs.data import ColumnName, FilesConfig, repeated_columns

Size = Annotated[int, Field(ge=1)]
_UNDECODABLE_CHANNELS: Final = 2


class ImageClassificationConfig(FilesConfig):
    """Image classification with a fixed image size.

    The columns are an image and a label, an integer. In TFRecord files an image is one string: its raw pixels, uint8 of
    `imageShape`, or a JPEG or PNG file of any size (`imageFormat`). In `.npz` files a last axis of size 1 may be
    absent; idx files have images, and labels in a second file with a matching name.
    """

    image_shape: tuple[Size, Size, Annotated[int, Field(ge=1, le=4)]] = (28, 28, 1)
    """Height, width and channels of the images that the model gets."""
    image_format: Literal["Raw", "Encoded"] = "Raw"
    """Format of the images in the files. `Raw`: uint8 pixels of `imageShape`. `Encoded`, in TFRecord files: JPEG or PNG
    of any size, as `tf.io.decode_image` decodes. They are converted to the channels of `imageShape`, cropped at the
    center to its ratio of height and width, and resized with antialiasing; an image of this size is unchanged."""
    image: ColumnName | None = None
    """Column of the image. By default `image`, or `image/encoded` with `imageFormat: Encoded`, as in the TFRecord files
    of ImageNet."""
    label: ColumnName | None = None
    """Column of the label. By default `label`, or `image/class/label` with `imageFormat: Encoded`."""
    label_offset: int = Field(default=0, ge=0, lt=2**31)
    """Label of the first class in the files, which is subtracted from each label: 1 for the files of ImageNet."""
    classes: int = Field(default=10, ge=2)
    """Number of classes; labels are `labelOffset` to `labelOffset` + `classes` - 1."""
    augmentation: tuple[Literal["RandomResizedCrop", "RandomFlip"], ...] = ()
    """Random changes of images in training. `RandomResizedCrop`: a rectangle of 8 to 100 % of the area, with a ratio of
    width and height of 3:4 to 4:3, is resized to `imageShape` (Szegedy et al., arXiv 1409.4842). `RandomFlip`: half of
    the images are flipped horizontally. Equal seeds give equal changes, also after a restart. None if empty."""
    model: Annotated[
        Literal["mlp", "cnn", "resnet"] | Annotated[str, Field(pattern=r"\.keras$")],
        alternatives(r"must be 'mlp', 'cnn', 'resnet' or a string that matches \.keras$"),
    ] = "cnn"
    """`mlp`: one hidden layer of 128 units. `cnn`: two convolutions of stride 2, then one of 64 units. `resnet`: the
    residual network for small images of He et al. (arXiv 1512.03385, 4.2). Or the path of a Keras model,
    saved with `model.save("x.keras")`: from images to logits, or to probabilities by a softmax; training starts from
    its weights. The model has layers of Keras only, no Lambda: code in the file is not run."""
    resnet_blocks: int = Field(default=3, ge=1, le=18)
    """Blocks in each of the three stages of `resnet`: 3 make 20 layers, 9 make 56."""
    batch_normalization: bool = False
    """Batch normalization after each hidden layer; `resnet` always has it."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Dropout rate before the last layer."""

    @property
    def image_column(self) -> str:
        """The name of the column of images."""
        return self.image or ("image/encoded" if self.image_format == "Encoded" else "image")

    @property
    def label_column(self) -> str:
        """The name of the column of labels."""
        return self.label or ("image/class/label" if self.image_format == "Encoded" else "label")

    def _broken_rules(self) -> Iterator[BrokenRule]:
        yield from super()._broken_rules()
        columns = {"image": self.image_column, "label": self.label_column, "data.weight": self.data.weight}
        yield from repeated_columns((tuple(name.split(".")), column) for name, column in columns.items())
        if self.image_format == "Encoded":
            if self.image_shape[2] == _UNDECODABLE_CHANNELS:
                yield BrokenRule(("imageShape", 2), "must be 1, 3 or 4 for encoded images: they have no other channels")
            if self.data.format not in {None, "tfrecord"}:
                yield BrokenRule(("imageFormat",), f"must be Raw for data.format {self.data.format}")
