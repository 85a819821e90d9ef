"""Tell the class of texts from their words."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import tensorflow as tf

from tfdist_trainer.data.columns import Array, Column
from tfdist_trainer.errors import DataMissingError
from tfdist_trainer.kerases import keras
from tfdist_trainer.programs.from_files import cross_entropy
from tfdist_trainer.programs.learned import Exchange, Learner
from tfdist_trainer.programs.text_classification_config import TextClassificationConfig
from tfdist_trainer.programs.vocabulary import Vocabulary, most_frequent

UNKNOWN: Final = 1
"""Number of words that are not in the vocabulary; 0 is no word at all, and masked."""
FILTER_WORDS: Final = 5
_BETWEEN_WORDS: Final = r"[^\p{L}\p{N}]+"


class TextClassification(Learner):
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
        """Return the numbers of words, int64 [batch, length], 0 after the last, and labels, int64 [batch]."""
        if self._vocabulary is None:
            raise RuntimeError("prepare() comes before examples()")
        found = words(columns[self.config.text])[:, : self.config.length]
        codes = self._vocabulary.codes(found.flat_values) + UNKNOWN
        numbers = found.with_flat_values(codes).to_tensor(0, shape=[None, self.config.length])
        return numbers, columns[self.config.label]

    def settings(self) -> Mapping[str, Any]:
        """Return what the vocabulary depends on; see the base class."""
        names = {"text", "classes", "vocabulary_size"}
        settings: Mapping[str, Any] = self.config.model_dump(mode="json", include=names)
        return settings

    def learn(self, batches: Callable[[], Iterator[dict[str, Array]]], exchange: Exchange) -> Mapping[str, Any]:
        """Return the most frequent words of all members' texts.

        Raises:
            DataMissingError: there is no word.
        """
        counts: Counter[str] = Counter()
        for batch in batches():
            found = words(tf.constant(batch[self.config.text], tf.string)).flat_values.numpy()
            counts.update(word.decode("utf-8", "replace") for word in found.tolist())
        vocabulary = most_frequent(exchange.count(counts), self.config.vocabulary_size)
        if not vocabulary:
            raise DataMissingError(f"training.config.data.train: column {self.config.text!r} holds no word")
        return {"vocabulary": vocabulary}

    def use(self, learned: Mapping[str, Any]) -> None:
        """Number words by the vocabulary that was `learned`."""
        self._vocabulary = Vocabulary(learned["vocabulary"])

    def model(self) -> keras.Model:
        """Return a model from numbers of words [batch, length] to logits [batch, classes]."""
        size = UNKNOWN + 1 + len(self._vocabulary or ())
        numbers = keras.layers.Input([self.config.length], dtype="int64")
        present = keras.layers.Lambda(_is_word)(numbers)
        vectors = keras.layers.Embedding(size, self.config.embedding)(numbers) * present
        if self.config.model == "conv":
            filters = keras.layers.Conv1D(self.config.hidden_units, FILTER_WORDS, padding="same", activation="relu")
            # The answers are not below 0, so that 0 where there is no word takes part in no maximum.
            hidden = keras.layers.GlobalMaxPooling1D()(filters(vectors) * present)
        else:
            hidden = keras.layers.Lambda(_mean)([vectors, present])
        hidden = keras.layers.Dense(self.config.hidden_units, activation="relu")(hidden)
        if self.config.dropout:
            hidden = keras.layers.Dropout(self.config.dropout)(hidden)
        return keras.Model(numbers, keras.layers.Dense(self.classes, dtype="float32")(hidden))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the cross entropy, float32 [batch]."""
        return cross_entropy(labels, predictions)


def _is_word(numbers: tf.Tensor) -> tf.Tensor:
    """Return 1 where there is a word, float32 [batch, length, 1]."""
    return tf.cast(tf.not_equal(numbers, 0), tf.float32)[..., tf.newaxis]


def _mean(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return the mean of the vectors, [batch, length, size], of words; zeros for a text without any."""
    vectors, present = parts
    return tf.reduce_sum(vectors, axis=1) / tf.maximum(tf.reduce_sum(present, axis=1), 1.0)


def words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Return the words of `texts`, strings [batch], as ragged strings [batch, (words)]."""
    # What is no UTF-8 becomes a sign that is no letter: texts never stop a training.
    valid = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    plain = tf.strings.regex_replace(tf.strings.lower(valid, encoding="utf-8"), _BETWEEN_WORDS, " ")
    return tf.strings.split(tf.strings.strip(plain))
