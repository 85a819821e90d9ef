"""The packages of the trainer's image, which no job installs again: a second NumPy would come before the image's."""

import json
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

_FILE: Final = "trainer_packages.json"
OWN: Final = frozenset({"tfdist", "tfdist-trainer"})
"""Distributions of this project in the image."""


@cache
def trainer_image() -> Mapping[str, Any]:
    """Return `python`, the version of Python in the trainer's image, and `packages`: versions by normalized names."""
    content: Mapping[str, Any] = json.loads(files("tfdist.client").joinpath(_FILE).read_text(encoding="utf-8"))
    return content


def write_constraints(folder: Path) -> Path:
    """Write a file of constraints that names an empty wheel for each package of the image, and return its path.

    pip takes these wheels whatever the index has, and so needs neither to download TensorFlow to read its
    dependencies, nor to find it in a folder of wheels.
    """
    lines = []
    for name, version in trainer_image()["packages"].items():
        wheel = _empty_wheel(folder, name, version)
        lines.append(f"{name} @ {wheel.as_uri()}")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return constraints


def _empty_wheel(folder: Path, name: str, version: str) -> Path:
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
    return path
