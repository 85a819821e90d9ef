"""Converts Fashion-MNIST, as Debian's package `dataset-fashion-mnist` installs it, to the trainer's formats.

    python -m tfdist_trainer.data.fashion_mnist --source /usr/share/datasets/fashion-mnist --out /data

writes `train-00000-of-00008.tfrecord` ... and `test-00000-of-00008.tfrecord` ... (or `.npz`). Any data set of
MNIST's four idx files can be converted so. Equal input gives byte-equal TFRecord files.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tfdist_trainer import log
from tfdist_trainer.data import idx, npz
from tfdist_trainer.errors import DataMalformedError, DataMissingError, TrainerError

Images = npt.NDArray[np.uint8]

DEFAULT_SOURCE: Final = Path("/usr/share/datasets/fashion-mnist")
PREFIXES: Final = {"train": "train", "test": "t10k"}
"""Name of each split in the files written, and in MNIST's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Convert as given on the command line, and return the exit code."""
    parser = argparse.ArgumentParser(description="Convert MNIST-like idx files to .npz or TFRecord.")
    parser.add_argument("--source", type=Path, default=DEFAULT_SOURCE, help="folder with the idx files")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--format", choices=["npz", "tfrecord"], default="tfrecord")
    parser.add_argument("--shards", type=int, default=8, help="files for each split")
    options = parser.parse_args(arguments)
    try:
        for name in convert(options.source, options.out, options.format, options.shards):
            print(name)
    except TrainerError as error:
        log.error(f"fashion_mnist: {error}")
        return error.exit_code
    return 0


def convert(source: Path, out: Path, kind: str, shards: int) -> list[Path]:
    """Write both splits in `shards` files each, of format `kind`, and return the files.

    Raises:
        DataMissingError: a file of `source` does not exist.
        DataMalformedError: a file is not idx, or images and labels do not match.
    """
    out.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for split, prefix in PREFIXES.items():
        images, labels = _read_split(source, prefix)
        # Every n-th example, so that each file has its share of every class even when the source is sorted.
        for shard in range(shards):
            path = out / f"{split}-{shard:05d}-of-{shards:05d}.{kind}"
            _write(path, images[shard::shards], labels[shard::shards], kind)
            written.append(path)
    return written


def _read_split(source: Path, prefix: str) -> tuple[Images, Images]:
    """Return images, uint8 [examples, height, width, 1], and labels, uint8 [examples]."""
    images = idx.read(str(_find(source, f"{prefix}-images-idx3-ubyte")))
    labels = idx.read(str(_find(source, f"{prefix}-labels-idx1-ubyte")))
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):  # noqa: PLR2004  count, height, width
        raise DataMalformedError(
            f"{source}/{prefix}-*: images {list(images.shape)} and labels {list(labels.shape)} do not match"
        )
    return images[..., np.newaxis], labels


def _find(source: Path, name: str) -> Path:
    for candidate in (source / name, source / f"{name}.gz"):
        if candidate.exists():
            return candidate
    raise DataMissingError(f"{source / name}[.gz] does not exist; install dataset-fashion-mnist or give --source")


def _write(path: Path, images: Images, labels: Images, kind: str) -> None:
    arrays: dict[str, npt.NDArray[Any]] = {"image": images, "label": labels.astype(np.int64)}
    if kind == "npz":
        npz.save(str(path), **arrays)
        return
    from tfdist_trainer.data import tfrecord  # noqa: PLC0415  .npz does not need TensorFlow

    tfrecord.write(str(path), arrays)


if __name__ == "__main__":
    sys.exit(main())
