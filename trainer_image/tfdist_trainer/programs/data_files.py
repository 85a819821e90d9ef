"""The data files that `training.config.data` of a bundled program names. Imports neither NumPy nor TensorFlow."""

from pathlib import PurePath
from typing import Final

from tfdist.programs.data import DataConfig, FileList, Format
from tfdist_trainer.data.file_lists import read_list
from tfdist_trainer.data.files import FileAssignment, Pattern, Shard, Split, file_assignment
from tfdist_trainer.errors import ConfigurationError


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


_NEEDED: Final = {Split.TRAIN: "train", Split.EVAL: "evaluate"}


def field_of(split: Split) -> str:
    """Return the path of the field with the files of `split`."""
    return f"training.config.data.{split}"


def patterns(data: DataConfig, split: Split) -> tuple[Pattern, ...]:
    """Return the patterns of `split`, those in its list of files if it has one.

    Raises:
        ConfigurationError: there are none.
        DataMissingError, DataMalformedError: as of `read_list`.
    """
    configured = data.train if split is Split.TRAIN else data.eval
    if not configured:
        raise ConfigurationError(f"{field_of(split)}: required, and absent: there is nothing to {_NEEDED[split]} on")
    if isinstance(configured, FileList):
        return read_list(configured.file_list, field_of(split))
    return tuple(Pattern(text, field_of(split)) for text in configured)


def assignment(data: DataConfig, split: Split, shard: Shard, *, by_record: bool = False) -> FileAssignment:
    """Return the files of `split` that pipeline `shard` reads; errors as of `file_assignment`.

    idx files of labels are left out: they are read with their file of images.
    """
    return file_assignment(
        patterns(data, split),
        shard,
        predicate=lambda name: _format(data, name) != "idx" or not is_labels(name),
        by_record=by_record,
    )


def kind(data: DataConfig, split: Split, files: tuple[str, ...]) -> tuple[Format, bool]:
    """Return the format of `files`, and whether they are compressed TFRecord files.

    Raises:
        ConfigurationError: they are of different formats or compressions.
    """
    kinds = {(_format(data, name), _is_gzip(data, name)) for name in files}
    formats = {each for each, _ in kinds}
    if len(formats) > 1 or ("tfrecord" in formats and len(kinds) > 1):
        raise ConfigurationError(
            f"{field_of(split)}: matches files of different formats or compressions: "
            f"{files[0]} ... {files[-1]}; give them one by one or set data.format"
        )
    return min(kinds, default=("npz", False))


def _format(data: DataConfig, name: str) -> Format:
    return data.format or format_of(name)


def _is_gzip(data: DataConfig, name: str) -> bool:
    return name.endswith(".gz") if data.compression is None else data.compression == "GZIP"
