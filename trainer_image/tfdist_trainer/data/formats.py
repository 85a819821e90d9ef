"""Which format a file has, by its name. Needs nothing."""

from pathlib import PurePath
from typing import Literal

Format = Literal["npz", "tfrecord", "csv", "idx"]


def format_of(name: str) -> Format:
    """Return the format of the file or pattern `name`; TFRecord is what has no ending of its own."""
    plain = name.removesuffix(".gz")
    if plain.endswith(".npz"):
        return "npz"
    if plain.endswith(".csv"):
        return "csv"
    return "idx" if plain.endswith(("ubyte", ".idx")) else "tfrecord"


def is_labels(name: str) -> bool:
    """Return whether the idx file `name` holds labels: `train-labels-idx1-ubyte.gz`."""
    return "labels" in PurePath(name).name
