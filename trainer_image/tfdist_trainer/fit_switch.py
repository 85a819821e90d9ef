"""The environment variable with which a job decides who runs its `fit`: the trainer, or Keras alone."""

from collections.abc import Mapping
from typing import Final

FIT_ENV: Final = "TFDIST_KERAS_FIT"
OFF: Final = "off"
"""`fit` is left to Keras."""
ALONE: Final = "alone"
"""Each of several workers may train a model of its own."""
UNTESTED: Final = "untested"
"""The trainer runs `fit` also with versions of Keras and TensorFlow that it was not tested with."""


def fit_switch(environ: Mapping[str, str]) -> str:
    """Return the value of the variable in lower case; "" if it is not set."""
    return environ.get(FIT_ENV, "").lower()
