"""The packages of the trainer's image for `tfdist submit --requirements`, from the lock file of the image."""

import json
import pathlib
import re
from typing import Final

ROOT: Final = pathlib.Path(__file__).resolve().parents[3]
PYTHON: Final = "3.11"
"""Version of `requirements/lock.sh` and of the image's base."""
_REMOVED: Final = frozenset({"libclang", "setuptools", "wheel"})
"""Locked, but removed from the image by its Dockerfile."""
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def text() -> str:
    """Return the file with the version of Python and of each package; the CPU's TensorFlow stands for each other."""
    locked = (ROOT / "requirements" / "trainer-cpu.txt").read_text(encoding="utf-8")
    packages = {name: version for name, version in _PIN.findall(locked) if name not in _REMOVED}
    packages["tensorflow"] = packages["tensorflow-cpu"]
    return json.dumps({"python": PYTHON, "packages": dict(sorted(packages.items()))}, indent=1) + "\n"
