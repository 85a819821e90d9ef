"""Fashion-MNIST: from Debian's package into the volume of the demonstration."""

import os
from pathlib import Path
from typing import Final

from tfdist_cluster import console, content, paths, shell
from tfdist_cluster.errors import ClusterError
from tfdist_demo import manifests, volume
from tfdist_demo.kubectl import Kubectl
from tfdist_images import programs

PACKAGE: Final = "dataset-fashion-mnist"
IN_PACKAGE: Final = "usr/share/datasets/fashion-mnist"
FILES: Final = tuple(
    f"{split}-{kind}.gz" for split in ("train", "t10k") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
)
CONVERTER: Final = ("tfdist_trainer.data.fashion_mnist", "tfrecord", "8")
"""Module, format and number of files of each split."""


def fetch() -> Path:
    """Return a folder with the four idx files: `FASHION_MNIST`, or Debian's package, unpacked but not installed."""
    override = os.environ.get("FASHION_MNIST")
    package_folder = Path("/", IN_PACKAGE)
    for folder in [Path(override)] if override else [package_folder]:
        if all((folder / name).exists() for name in FILES):
            return folder
    if override:
        raise ClusterError(f"FASHION_MNIST is {override}, which lacks some of {', '.join(FILES)}")
    cache_folder = paths.State.from_environment().folder("datasets") / PACKAGE
    content.publish(cache_folder, content.digest(PACKAGE), _download)
    return cache_folder / IN_PACKAGE


def _download(folder: Path) -> None:
    """Download Debian's package and unpack it into `folder`."""
    folder.mkdir()
    with console.step(f"download {PACKAGE} (31 MB, 70,000 labelled images)"):
        try:
            programs.apt_get("download", PACKAGE, cwd=folder)
        except ClusterError:
            programs.apt_get("update")
            programs.apt_get("download", PACKAGE, cwd=folder)
        package = next(folder.glob("*.deb"))
        shell.run(["dpkg-deb", "--extract", package, folder])
        package.unlink()


def contents() -> volume.Contents:
    """Return what the volume of the demonstration holds: both splits as TFRecord files, and a place for checkpoints."""
    source = fetch()
    return volume.Contents(
        claim=manifests.CLAIM,
        what="Fashion-MNIST",
        files={name: source / name for name in FILES},
        folder=manifests.TMP,
        commands=(
            ("mkdir", "-p", "/volume/data", "/volume/checkpoints"),
            convert(manifests.TMP, "/volume/data", *CONVERTER[1:]),
        ),
    )


def convert(source: str, out: str, kind: str, shards: str) -> tuple[str, ...]:
    """Return the command that converts the idx files of a folder in a pod of the trainer's image."""
    return ("python", "-m", CONVERTER[0], "--source", source, "--out", out, "--format", kind, "--shards", shards)


def prepare_volume(kubectl: Kubectl, trainer: str, *, storage_class: str | None, access_mode: str) -> None:
    """Make the namespace and the claim, and fill the volume unless it holds this data already."""
    volume.prepare(kubectl, trainer, contents(), storage_class=storage_class, access_mode=access_mode)
