"""The metrics that a configuration may name. Needs no TensorFlow, so that a wrong name is reported at once."""

import re
from typing import Final, Literal

Task = Literal["classification", "regression"]

CLASSIFICATION: Final = ("accuracy", "top_<k>", "precision", "recall", "f1", "auc", "confusion_matrix")
REGRESSION: Final = ("mean_squared_error", "mean_absolute_error", "root_mean_squared_error", "r2")
TOP_K: Final = re.compile(r"top_([1-9][0-9]{0,3})")
KERAS: Final = re.compile(r"keras\.([A-Z][A-Za-z]{1,60})")


def metric_names(task: Task) -> tuple[str, ...]:
    """Return the names of the metrics of `task`, for messages."""
    return (*(CLASSIFICATION if task == "classification" else REGRESSION), "keras.<Class>")


def is_metric(name: str, task: Task) -> bool:
    """Return whether `name` is a metric of `task`; of Keras' own, only the form of the name is checked."""
    if KERAS.fullmatch(name):
        return True
    if task == "regression":
        return name in REGRESSION
    return TOP_K.fullmatch(name) is not None or (name in CLASSIFICATION and "<" not in name)
