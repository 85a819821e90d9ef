"""Text classification by words."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.data.columns import Array, Column
from tfdist_trainer.errors import DataMissingError
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.programs.from_files import cross_entropy
from tfdist_trainer.programs.preprocessing import AdaptableProgram, Reducer
from tfdist_trainer.programs.text_classification_config import TextClassificationConfig
from tfdist_trainer.programs.vocabulary import Vocabulary, most_frequent

UNKNOWN: Final = 1
"""Index of words that are out of vocabulary; 0 is padding, and masked."""
FILTER_WORDS: Final = 5
_BETWEEN_WORDS: Final = r"[^\p{L}\p{N}]+"


class TextClassification(AdaptableProgram):
    """The program `text_classification`."""

    Config = TextClassificationConfig

    def __init__(self, config: TextClassificationConfig) -> None:
        super().__init__(config)
        self.classes = len(config.classes) if isinstance(config.classes, tuple) else config.classes
        self._vocabulary: Vocabulary | None = None

    def columns(self) -> tuple[Column, ...]:
        """Return the text and the label."""
        name, classes = self.config.label, self.config.classes
        named = isinstance(classes, tuple)
        label = Column(name, "string", choices=classes) if named else Column(name, "int64", below=classes)
        return Column(self.config.text, "string"), label

    def example(self, columns: dict[str, tf.Tensor]) -> tuple[Any, tf.Tensor]:
        """Return the indices of words, int64 [batch, length], padded with 0, and labels, int64 [batch]."""
        if self._vocabulary is None:
            raise RuntimeError("prepare() comes before examples()")
        found = words(columns[self.config.text])[:, : self.config.max_sequence_length]
        codes = self._vocabulary.codes(found.flat_values) + UNKNOWN
        numbers = found.with_flat_values(codes).to_tensor(0, shape=[None, self.config.max_sequence_length])
        return numbers, columns[self.config.label]

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
        for batch in batches():
            found = words(tf.constant(batch[self.config.text], tf.string)).flat_values.numpy()
            counts.update(word.decode("utf-8", "replace") for word in found.tolist())
        vocabulary = most_frequent(reducer.count(counts), self.config.vocabulary_size)
        if not vocabulary:
            raise DataMissingError(f"training.config.data.train: column {self.config.text!r} contains no words")
        return {"vocabulary": vocabulary}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load the vocabulary."""
        self._vocabulary = Vocabulary(state["vocabulary"])

    def model(self) -> keras.Model:
        """Return a model from indices of words [batch, length] to logits [batch, classes]."""
        size = UNKNOWN + 1 + len(self._vocabulary or ())
        numbers = keras.layers.Input([self.config.max_sequence_length], dtype="int64")
        mask = keras.layers.Lambda(_is_word)(numbers)
        vectors = keras.layers.Embedding(size, self.config.embedding_dim)(numbers) * mask
        if self.config.model == "conv":
            filters = keras.layers.Conv1D(self.config.hidden_units, FILTER_WORDS, padding="same", activation="relu")
            # Activations are not negative, so the 0 of padding never exceeds the maximum.
            hidden = keras.layers.GlobalMaxPooling1D()(filters(vectors) * mask)
        else:
            hidden = keras.layers.Lambda(_mean)([vectors, mask])
        hidden = keras.layers.Dense(self.config.hidden_units, activation="relu")(hidden)
        if self.config.dropout:
            hidden = keras.layers.Dropout(self.config.dropout)(hidden)
        return keras.Model(numbers, keras.layers.Dense(self.classes, dtype="float32")(hidden))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy, float32 [batch]."""
        return cross_entropy(labels, predictions)


def _is_word(numbers: tf.Tensor) -> tf.Tensor:
    """Return the mask of words, float32 [batch, length, 1]."""
    return tf.cast(tf.not_equal(numbers, 0), tf.float32)[..., tf.newaxis]


def _mean(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the mean of the word vectors, [batch, length, size]; zeros for a text without words."""
    vectors, mask = parts
    return tf.reduce_sum(vectors, axis=1) / tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)


def words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Return the words of `texts`, strings [batch], as ragged strings [batch, (words)]."""
    # Invalid UTF-8 becomes the replacement character, which is not a letter: texts never fail a training.
    valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    plain = tf.strings.regex_replace(tf.strings.lower(valid, encoding="utf-8"), _BETWEEN_WORDS, " ")
    return tf.strings.split(tf.strings.strip(plain))
