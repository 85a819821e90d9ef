"""The versions of Keras and TensorFlow that the private hooks were tested with, and the one check of those in use.

`tests/unit/test_framework_versions.py` compares them with the metadata, the locks and `docs/keras.md`. The module
imports neither Keras nor TensorFlow by itself.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from tfdist_trainer import log
from tfdist_trainer.fit_switch import FIT_ENV, UNTESTED, fit_switch

KERAS: Final = ">=3.10.0,<3.16"
"""Versions of Keras that the hooks were tested with."""

TENSORFLOW: Final = ">=2.19.0,<2.22"
"""Versions of TensorFlow that the hooks were tested with."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Versions of both packages that the tests ran with, as a row of the table in `docs/keras.md`."""

    tensorflow: str
    keras: str
    lock: str
    """File of `requirements/` that installs the pair; "" for one that was tested by hand."""
    differs: str = ""
    """What a script gets otherwise with it than with the newest pair."""


PAIRS: Final = (
    Pair(
        *("2.19.1", "3.10.0", "versions-oldest.txt"),
        differs="on one worker with `steps_per_execution`, callbacks get the first batch of a call and not the last, "
        "as this Keras does, so the progress within an epoch lags by one call",
    ),
    Pair("2.20.0", "3.13.2", "versions-middle.txt"),
    Pair("2.21.0", "3.14.1", ""),
    Pair("2.21.0", "3.15.1", "trainer-cpu.txt"),
)
"""The tested pairs, from the oldest to the newest."""

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


def keras_is_before(minor: str) -> bool:
    """Return whether the Keras of this process is older than `minor`, such as `3.11`; a pre-release of it is not."""
    return Version(importlib.import_module("keras").__version__).release < Version(minor).release


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
