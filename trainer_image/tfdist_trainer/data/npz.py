"""Images and labels in `.npz` files. This module needs numpy alone."""

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tfdist_trainer.data.files import Part
from tfdist_trainer.errors import DataMalformedError

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """What every image is: uint8 of `shape` [height, width, channels]; labels are 0 to `classes` - 1."""

    shape: tuple[int, int, int]
    classes: int


def load(part: Part, spec: ImageSpec) -> tuple[Images, Labels]:
    """Return the images [examples, height, width, channels] and labels [examples] of one pipeline.

    Raises:
        DataMalformedError: a file is no `.npz`, lacks an array, or an array is not as `spec` says.
    """
    images: list[Images] = [np.empty((0, *spec.shape), np.uint8)]
    labels: list[Labels] = [np.empty((0,), np.int64)]
    first_record = 0
    for name in part.files:
        image, label = load_file(name, spec)
        start = (part.offset - first_record) % part.stride
        images.append(image[start :: part.stride])
        labels.append(label[start :: part.stride])
        first_record += len(label)
    return np.concatenate(images), np.concatenate(labels)


def load_file(name: str, spec: ImageSpec) -> tuple[Images, Labels]:
    """Return all images and labels of the file `name`, checked against `spec`; errors as in `load`."""
    try:
        with np.load(name, allow_pickle=False) as arrays:
            missing = sorted({"image", "label"} - set(arrays.files))
            if missing:
                raise DataMalformedError(f"{name}: has no array {missing[0]!r}; it has {sorted(arrays.files)}")
            image, label = arrays["image"], arrays["label"]
    except (
        ValueError,
        OSError,
        EOFError,
        AttributeError,
        TypeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DataMalformedError(f"{name}: not a readable .npz file: {error}") from None
    if spec.shape[2] == 1 and image.shape[1:] == spec.shape[:2]:
        image = image[..., np.newaxis]
    _check_arrays(name, image, label, spec)
    return image, label.astype(np.int64)


def _check_arrays(name: str, image: npt.NDArray[Any], label: npt.NDArray[Any], spec: ImageSpec) -> None:
    if image.dtype != np.uint8 or image.shape[1:] != spec.shape:
        raise DataMalformedError(
            f"{name}: array 'image' is {image.dtype}{list(image.shape)}, expected uint8 images of "
            f"imageShape {list(spec.shape)}"
        )
    if label.shape != image.shape[:1] or not np.issubdtype(label.dtype, np.integer):
        raise DataMalformedError(
            f"{name}: array 'label' is {label.dtype}{list(label.shape)}, expected one integer for each of "
            f"{image.shape[0]} images"
        )
    wrong = np.flatnonzero((label < 0) | (label >= spec.classes))
    if wrong.size:
        raise DataMalformedError(
            f"{name}: record {wrong[0]} has label {label[wrong[0]]}, expected 0 to {spec.classes - 1}"
        )


def save_file(name: str, images: Images, labels: Sequence[int] | npt.NDArray[Any]) -> None:
    """Write one `.npz` file that `load_file` reads."""
    np.savez_compressed(name, image=images, label=np.asarray(labels, np.int64))
