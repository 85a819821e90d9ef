"""Classification or regression on numeric and categorical columns."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist.programs.tabular import TabularConfig
from tfdist_trainer.data.columns import Array, DataColumn
from tfdist_trainer.keras_compat import keras, ops
from tfdist_trainer.programs.from_files import cross_entropy, label_column
from tfdist_trainer.programs.preprocessing import (
    OUT_OF_VOCABULARY,
    AdaptableProgram,
    Reducer,
    count_strings,
    most_frequent,
)

LARGEST_EMBEDDING: Final = 50

Batches = Callable[[], Iterator[dict[str, Array]]]


class Tabular(AdaptableProgram):
    """The program `tabular`."""

    Config = TabularConfig

    def __init__(self, config: TabularConfig) -> None:
        super().__init__(config)
        classes = config.classes
        self.classes = len(classes) if isinstance(classes, tuple) else classes
        self._mean: dict[str, list[float]] = {}
        self._deviation: dict[str, list[float]] = {}
        self._lookups: dict[str, keras.layers.Layer] = {}

    def columns(self) -> tuple[DataColumn, ...]:
        """Return the numeric columns, the categorical columns, and the label."""
        numeric = [DataColumn(name, "float32", (width,)) for name, width in self.config.numeric.items()]
        return (
            *(DataColumn(c.name, "float32") if c.shape == (1,) else c for c in numeric),
            *(DataColumn(name, "string") for name in self.config.categorical),
            self._label(),
        )

    def features(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """Return `numeric`, float32 [batch, numbers], and `categorical`, int64 [batch, columns]; see the base class."""
        features = {}
        if self.config.numeric:
            numbers = [ops.reshape(columns[name], [-1, width]) for name, width in self.config.numeric.items()]
            # With mixed precision a layer converts numbers to its own type.
            features["numeric"] = keras.layers.Concatenate(dtype="float32")(numbers) if len(numbers) > 1 else numbers[0]
        if self.config.categorical:
            indices = [lookup(columns[name]) for name, lookup in self._lookups.items()]
            features["categorical"] = ops.stack(indices, axis=1)
        return features

    def fingerprint(self) -> Mapping[str, Any]:
        """Return the columns and their options; see the base class."""
        names = {"label", "classes", "numeric", "categorical", "normalize"}
        settings: Mapping[str, Any] = self.config.model_dump(mode="json", include=names)
        return settings

    def adapt(self, batches: Batches, reducer: Reducer) -> Mapping[str, Any]:
        """Return means and deviations of numeric columns, and the categories of columns without a list."""
        return {**self._adapt_scales(batches, reducer), "categories": self._adapt_categories(batches, reducer)}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load means, deviations and categories, those in the configuration first; create the lookup layers."""
        if isinstance(self.config.normalize, dict):
            for name, configured in self.config.normalize.items():
                width = self.config.numeric.get(name, 1)
                self._mean[name], self._deviation[name] = [configured.mean] * width, [configured.deviation] * width
        else:
            self._mean, self._deviation = dict(state["mean"]), dict(state["deviation"])
        for name, configured in self.config.categorical.items():
            self._lookups[name] = _lookup(configured or state["categories"][name])

    def model(self) -> keras.Model:
        """Return a model from features to logits [batch, classes], or to numbers [batch]."""
        inputs: dict[str, Any] = {}
        parts: list[Any] = []
        if self.config.numeric:
            width = sum(self.config.numeric.values())
            inputs["numeric"] = keras.layers.Input([width], name="numeric")
            mean, deviation = self._scale(list(self.config.numeric))
            # Constants of the layer, not weights: replicas do not average them.
            scale = {"scale": (1 / deviation).tolist(), "offset": (-mean / deviation).tolist()}
            # In float32 also with mixed precision: in bfloat16, 2000 and 2003 are one number.
            parts.append(keras.layers.Rescaling(**scale, dtype="float32")(inputs["numeric"]))
        if self.config.categorical:
            inputs["categorical"] = keras.layers.Input(
                [len(self.config.categorical)], dtype="int64", name="categorical"
            )
            for index, name in enumerate(self.config.categorical):
                parts.append(self._embed(name)(inputs["categorical"][:, index]))
        hidden = keras.layers.Concatenate()(parts) if len(parts) > 1 else parts[0]
        for units in self.config.hidden_units:
            hidden = keras.layers.Dense(units, activation="relu")(hidden)
        if self.config.dropout:
            hidden = keras.layers.Dropout(self.config.dropout)(hidden)
        return keras.Model(inputs, self._output(hidden))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy, or the squared error in units of the label's variance; float32 [batch]."""
        if self.classes is not None:
            return cross_entropy(labels, predictions)
        _, deviation = self._scale([self.config.label])
        return tf.square((labels - predictions) / tf.constant(deviation[0], tf.float32))

    @property
    def label_mean(self) -> float:
        """Mean of the label in the training data or the configuration; see the base class."""
        if self.config.label not in self._mean:
            return 0.0  # the data has not been read yet, as for the names of the metrics
        return float(self._scale([self.config.label])[0][0])

    def _label(self) -> DataColumn:
        name, classes = self.config.label, self.config.classes
        if classes is None:
            return DataColumn(name, "float32")
        return label_column(name, classes)

    def _embed(self, name: str) -> keras.layers.Layer:
        lookup = self._lookups[name]
        size = lookup.num_bins if isinstance(lookup, keras.layers.Hashing) else lookup.vocabulary_size()
        return keras.layers.Embedding(size, min(LARGEST_EMBEDDING, (size + 1) // 2), name=f"embed_{name}")

    def _output(self, hidden: Any) -> Any:
        if self.classes is not None:
            return keras.layers.Dense(self.classes, dtype="float32")(hidden)
        mean, deviation = self._scale([self.config.label])
        number = keras.layers.Dense(1, dtype="float32")(hidden)
        number = keras.layers.Rescaling(float(deviation[0]), float(mean[0]), dtype="float32")(number)
        return number[:, 0]

    def _scale(self, names: list[str]) -> tuple[Array, Array]:
        """Return the concatenated means and deviations of the columns `names`, float64 [numbers]."""
        return (
            np.concatenate([np.asarray(self._mean[name], np.float64) for name in names]),
            np.concatenate([np.asarray(self._deviation[name], np.float64) for name in names]),
        )

    def _adapt_scales(self, batches: Batches, reducer: Reducer) -> dict[str, Any]:
        widths = dict(self.config.numeric) | ({self.config.label: 1} if self.classes is None else {})
        if self.config.normalize != "Auto":
            zeros, ones = ({name: [value] * width for name, width in widths.items()} for value in (0.0, 1.0))
            return {"mean": zeros, "deviation": ones}
        mean = _mean(widths, batches, reducer, lambda values: values)
        # From differences to the mean: with large values, the mean of squares loses all digits by cancellation.
        variance = _mean(widths, batches, reducer, lambda values: (values - mean) ** 2)
        deviation = np.where(variance > 0, np.sqrt(variance), 1.0)
        ends = np.cumsum(list(widths.values()))[:-1]
        split = [dict(zip(widths, map(list, np.split(x, ends)), strict=True)) for x in (mean, deviation)]
        return {"mean": _plain(split[0]), "deviation": _plain(split[1])}

    def _adapt_categories(self, batches: Batches, reducer: Reducer) -> dict[str, list[str]]:
        unknown = [name for name, categories in self.config.categorical.items() if categories is None]
        counts: dict[str, Counter[str]] = {name: Counter() for name in unknown}
        if unknown:
            for batch in batches():
                for name in unknown:
                    count_strings(counts[name], tf.constant(batch[name], tf.string))
        return {name: most_frequent(reducer.count(counts[name])) for name in unknown}


def _lookup(categories: int | Sequence[str]) -> keras.layers.Layer:
    """Return the layer from categories to indices: of hash buckets, or of a vocabulary, from 1."""
    if isinstance(categories, int):
        return keras.layers.Hashing(categories + 1, mask_value="")  # index 0 is the mask's
    with tf.device("CPU:0"):
        return keras.layers.StringLookup(vocabulary=np.array([OUT_OF_VOCABULARY, *categories], object))


def _plain(arrays: dict[str, list[Any]]) -> dict[str, list[float]]:
    return {name: [float(value) for value in values] for name, values in arrays.items()}


def _mean(widths: Mapping[str, int], batches: Batches, reducer: Reducer, transform: Callable[[Array], Array]) -> Array:
    """Return the mean of `transform(columns)` over all examples of all members, float64 [numbers]."""
    size = sum(widths.values())
    total, count = np.zeros(size), 0
    for batch in batches():
        parts = [batch[name].reshape(-1, width).astype(np.float64) for name, width in widths.items()]
        rows = transform(np.concatenate(parts, axis=1))
        total += np.ascontiguousarray(rows.T).sum(axis=1)  # in pairs, so that rounding errors hardly add up
        count += len(rows)
    sums = reducer.sum([*total, float(count)])
    mean: Array = sums[:-1] / max(1.0, sums[-1])
    return mean
