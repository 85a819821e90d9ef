"""Translates the metric of an Experiment, a name in event files or in the output, to the name that `fit` reports."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_EVENTS: Final = "TensorFlowEvent"
_KERAS_TAG: Final = re.compile(r"(?:(?P<folder>train|validation)/)?epoch_(?P<name>\w+)")
"""A tag of Keras' callback TensorBoard; the collector puts the folder of the event files in front of it."""
_OTHER_NAME: Final = re.compile(
    r"(?P<set>validation|valid|val|test|eval|train|training)[-/. ]+(?P<name>\w+)"
    r"|(?P<long_set>validation|valid|test|eval|train|training)_(?P<long_name>\w+)"
    r"|(?:epoch|batch|evaluation)_(?P<tag>\w+)",
    re.IGNORECASE,
)
"""Names in an output or in event files that `fit` does not have."""
_OF_TRAINING: Final = {"train", "training"}


class ReportedMetric(NamedTuple):
    """The name of the metric in the sweep, and the beginning of the note about it."""

    name: str
    note: str


def reported_metric(name: str, collector_spec: Any) -> ReportedMetric:
    """Return the metric that a sweep compares the trials by.

    Args:
        name: `objectiveMetricName` of the Experiment.
        collector_spec: its `metricsCollectorSpec` as JSON, of any type; None without one.
    """
    tag = _KERAS_TAG.fullmatch(name) if _at(collector_spec, "collector", "kind") == _EVENTS else None
    if tag:
        path = _at(collector_spec, "source", "fileSystemPath", "path")
        folder = tag["folder"] or str(path).rstrip("/").rpartition("/")[2]
        new = f"val_{tag['name']}" if folder == "validation" else tag["name"]
        return ReportedMetric(new, f"{name}, a tag of Keras' callback TensorBoard, becomes {new}, which ")
    if likely := _likely(name):
        text = (
            f"{name} is kept, but fit of Keras reports no metric of this name, and without it no trial has a value: "
            f"write {likely} if that is the metric of fit, or report {name} by tfdist_trainer.report; it "
        )
        return ReportedMetric(name, text)
    return ReportedMetric(name, "")


def _likely(name: str) -> str | None:
    """Return the name that `fit` probably has for a metric; None if the name may be one of `fit`."""
    match = _OTHER_NAME.fullmatch(name)
    if match:
        dataset = (match["set"] or match["long_set"] or "train").lower()
        bare = (match["name"] or match["long_name"] or match["tag"]).lower().removeprefix("epoch_")
        return bare if dataset in _OF_TRAINING else f"val_{bare}"
    return None if re.fullmatch(r"[^\W\d]\w*", name) else "its name in the History of fit"


def _at(value: Any, *names: str) -> Any:
    """Return a field of a JSON value; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
