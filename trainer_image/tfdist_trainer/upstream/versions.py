"""The versions of Keras and TensorFlow that the private hooks were tested with, and the one check of those in use.

The same ranges are in `trainer_image/pyproject.toml`. The module imports neither Keras nor TensorFlow by itself.
"""

import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tfdist_trainer import log
from tfdist_trainer.fit_switch import FIT_ENV, UNTESTED, fit_switch

KERAS: Final = ">=3.15.1,<3.16"
"""Versions of Keras that the hooks were tested with."""

TENSORFLOW: Final = ">=2.21.0,<2.22"
"""Versions of TensorFlow that the hooks were tested with."""

RANGES: Final = {"keras": KERAS, "tensorflow": TENSORFLOW}
REMEDY: Final = f"keras{KERAS} and tensorflow{TENSORFLOW}"
"""What an image needs, for a message."""


def untested() -> str:
    """Return which of Keras and TensorFlow in this process was not tested, such as `keras 3.8.0`; "" if both were.

    Imports both packages.
    """
    # As imported, not as installed: a script can put another folder first.
    found = {package: str(importlib.import_module(package).__version__) for package in RANGES}
    return " and ".join(f"{package} {version}" for package, version in found.items() if not _is_in(package, version))


def hooks_serve(environ: Mapping[str, str]) -> bool:
    """Return whether the trainer runs `fit`: its versions were tested, or the job tries others, which is logged.

    The only place that decides it.
    """
    versions = untested()
    if versions and fit_switch(environ) == UNTESTED:
        log.event("keras-fit-untested", versions=versions, tested=REMEDY, allowed_by=f"{FIT_ENV}={UNTESTED}")
        return True
    return not versions


def warn_if_untested() -> None:
    """Log that a program of the trainer runs with versions that it was not tested with: it needs only some hooks."""
    versions = untested()
    if versions:
        log.event("versions-untested", versions=versions, tested=REMEDY)


def _is_in(package: str, version: str) -> bool:
    try:
        return SpecifierSet(RANGES[package]).contains(Version(version), prereleases=True)
    except InvalidVersion:  # of a build of one's own
        return False
