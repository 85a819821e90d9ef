"""Errors in the configuration of images."""

from typing import Final

from support.bad_manifests.case import Bad
from support.bad_manifests.programs import DATA, config

CASES: Final[tuple[Bad, ...]] = (
    config(
        "encoded images of two channels",
        "imageShape[2]",
        "must be 1, 3 or 4 for encoded images: they have no other channels",
        imageFormat="Encoded",
        imageShape=[8, 8, 2],
    ),
    config(
        "encoded images in CSV",
        "imageFormat",
        "must be Raw for data.format csv",
        imageFormat="Encoded",
        data={**DATA, "format": "csv"},
    ),
    config(
        "an image that is its label",
        "label",
        'Duplicate value: "image/encoded": image has this column too',
        imageFormat="Encoded",
        label="image/encoded",
    ),
    config(
        "an unknown augmentation",
        "augmentation[0]",
        'Unsupported value: "RandomCrop": supported values',
        augmentation=["RandomCrop"],
    ),
)
