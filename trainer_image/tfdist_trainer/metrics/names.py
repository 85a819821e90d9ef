"""The metrics that a configuration may name. Needs no TensorFlow, so that a wrong name is reported at once."""

import re
from collections.abc import Sequence
from typing import Final, Literal

Task = Literal["classification", "regression"]

CLASSIFICATION: Final = ("accuracy", "top_<k>", "precision", "recall", "f1", "auc", "confusion_matrix")
REGRESSION: Final = ("mean_squared_error", "mean_absolute_error", "root_mean_squared_error", "r2")
TOP_K: Final = re.compile(r"top_([1-9][0-9]{0,3})")
KERAS: Final = re.compile(r"keras\.([A-Z][A-Za-z]{1,60})")


def check(names: Sequence[str], task: Task) -> None:
    """Check that every one of `names` is a metric of `task`, and none is there twice.

    Raises:
        ValueError: with the name and those that are known.
    """
    known = CLASSIFICATION if task == "classification" else REGRESSION
    for name in names:
        right = name in known or KERAS.fullmatch(name) or (task == "classification" and TOP_K.fullmatch(name))
        if not right or "<" in name:
            raise ValueError(f"{name!r} is no metric of {task}; known are {', '.join(known)} and keras.<Class>")
    if len(set(names)) < len(names):
        raise ValueError("a metric is there twice")
