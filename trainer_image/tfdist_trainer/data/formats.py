"""The format of a file by its name. Imports neither NumPy nor TensorFlow."""

from pathlib import PurePath

from tfdist.programs.data import Format


def format_of(name: str) -> Format:
    """Return the format of the file or pattern `name`; TFRecord if no other ending matches."""
    if name.endswith(".parquet"):
        return "parquet"
    plain = name.removesuffix(".gz")
    if plain.endswith(".npz"):
        return "npz"
    if plain.endswith((".csv", ".tsv")):
        return "tsv" if plain.endswith(".tsv") else "csv"
    if plain.endswith(".txt"):
        return "text"
    if plain.endswith((".jsonl", ".ndjson")):
        return "jsonl"
    return "idx" if plain.endswith(("ubyte", ".idx")) else "tfrecord"


def is_labels(name: str) -> bool:
    """Return whether the idx file `name` holds labels: `train-labels-idx1-ubyte.gz`."""
    return "labels" in PurePath(name).name
