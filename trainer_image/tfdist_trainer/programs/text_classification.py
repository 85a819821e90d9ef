"""Text classification by words."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tfdist.programs.text_classification import TextClassificationConfig
from tfdist_trainer.data.columns import Array, DataColumn
from tfdist_trainer.errors import ConfigurationError, DataMissingError
from tfdist_trainer.keras_compat import keras, ops
from tfdist_trainer.programs.from_files import cross_entropy, label_column
from tfdist_trainer.programs.preprocessing import (
    FILE,
    OUT_OF_VOCABULARY,
    AdaptableProgram,
    Reducer,
    count_strings,
    most_frequent,
)
from tfdist_trainer.upstream.keras_layers import words

STANDARDIZE: Final = "lower_and_strip_punctuation"
"""How texts become words, of which `program.json` has the counts."""
FILTER_WORDS: Final = 5


class TextClassification(AdaptableProgram):
    """The program `text_classification`."""

    Config = TextClassificationConfig

    def __init__(self, config: TextClassificationConfig) -> None:
        super().__init__(config)
        self.classes = len(config.classes) if isinstance(config.classes, tuple) else config.classes
        self._vectorization: Any = None

    def columns(self) -> tuple[DataColumn, ...]:
        """Return the text and the label."""
        return DataColumn(self.config.text, "string"), label_column(self.config.label, self.config.classes)

    def features(self, columns: Mapping[str, Any]) -> Any:
        """Return the indices of words, int64 [batch, length]; 0 is padding, 1 out of vocabulary; see the base class."""
        if self._vectorization is None:
            raise RuntimeError("load() comes before features()")
        return self._vectorization(columns[self.config.text])

    def fingerprint(self) -> Mapping[str, Any]:
        """Return the settings that the vocabulary depends on; see the base class."""
        names = {"text", "classes", "vocabulary_size"}
        settings: Mapping[str, Any] = self.config.model_dump(mode="json", include=names)
        return settings

    def adapt(self, batches: Callable[[], Iterator[dict[str, Array]]], reducer: Reducer) -> Mapping[str, Any]:
        """Return the most frequent words in the texts of all members.

        Raises:
            DataMissingError: the texts contain no words.
        """
        counts: Counter[str] = Counter()
        layer = keras.layers.TextVectorization(standardize=STANDARDIZE)
        for batch in batches():
            count_strings(counts, words(layer, tf.constant(batch[self.config.text], tf.string)))
        vocabulary = most_frequent(reducer.count(counts), self.config.vocabulary_size)
        if not vocabulary:
            raise DataMissingError(f"training.config.data.train: column {self.config.text!r} contains no words")
        return {"standardize": STANDARDIZE, "vocabulary": vocabulary}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load the vocabulary; see the base class."""
        # Words of other rules would be looked up in this vocabulary, silently.
        if state.get("standardize") != STANDARDIZE:
            raise ConfigurationError(
                f"checkpoint.directory: another version wrote {FILE}, and divided texts into words by other rules; "
                "continue with the image of that version, or train in another directory"
            )
        with tf.device("CPU:0"):
            self._vectorization = keras.layers.TextVectorization(
                standardize=STANDARDIZE,
                output_sequence_length=self.config.max_sequence_length,
                vocabulary=np.array(["", OUT_OF_VOCABULARY, *state["vocabulary"]], object),
            )

    def model(self) -> keras.Model:
        """Return a model from indices of words [batch, length] to logits [batch, classes]."""
        if self._vectorization is None:
            raise RuntimeError("load() comes before model()")
        length = self.config.max_sequence_length
        numbers = keras.layers.Input([length], dtype="int64")
        mask = ops.expand_dims(ops.cast(ops.not_equal(numbers, 0), "float32"), -1)
        vectors = keras.layers.Embedding(self._vectorization.vocabulary_size(), self.config.embedding_dim)(numbers)
        vectors *= mask
        if self.config.model == "conv":
            filters = keras.layers.Conv1D(self.config.hidden_units, FILTER_WORDS, padding="same", activation="relu")
            # Activations are not negative, so the 0 of padding never exceeds the maximum.
            hidden = keras.layers.GlobalMaxPooling1D()(filters(vectors) * mask)
        else:
            # The mean over words is that over all positions, divided by the share of words; a text may have none.
            mean = keras.layers.GlobalAveragePooling1D(dtype="float32")
            hidden = mean(vectors) / ops.maximum(mean(mask), 1 / length)
        hidden = keras.layers.Dense(self.config.hidden_units, activation="relu")(hidden)
        if self.config.dropout:
            hidden = keras.layers.Dropout(self.config.dropout)(hidden)
        return keras.Model(numbers, keras.layers.Dense(self.classes, dtype="float32")(hidden))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy, float32 [batch]."""
        return cross_entropy(labels, predictions)
