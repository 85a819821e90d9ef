"""A transformer (Vaswani et al., arXiv 1706.03762) that classifies texts, with a tokenizer trained on the same data.

Reading, the labels and the metrics are the same as in `text_classification`. Here are the tokenizer, the network, and
AdamW without decay of biases, normalization and positions. Texts are padded to one length and masked: the trainer has
no batches of different lengths.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import keras
import numpy as np
import tensorflow as tf
import tokenizer

from tfdist.programs.text_classification import TextClassificationConfig
from tfdist_trainer.programs.preprocessing import Reducer
from tfdist_trainer.programs.text_classification import TextClassification


class Size(NamedTuple):
    """Width of the vectors, blocks, and heads of each."""

    width: int
    blocks: int
    heads: int


FULL: Final = Size(512, 6, 8)
"""The base model of the paper; its encoder has 19 million weights and the table of tokens."""
SMALL: Final = Size(64, 2, 4)


class Config(TextClassificationConfig):
    """What there is to set in addition to `text_classification`."""

    full_size: bool = False
    """The base model of the paper, instead of one of two blocks."""


class Transformer(TextClassification):
    """Classifies texts."""

    Config = Config

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.size = FULL if config.full_size else SMALL
        self.tokens: tokenizer.Tokenizer | None = None
        self.vocabulary: list[str] = []

    def adapt(self, batches: Callable[[], Iterator[dict[str, Any]]], reducer: Reducer) -> Mapping[str, Any]:
        """Return the tokenizer for the words of all workers; it is kept with the checkpoints."""
        counts: Counter[str] = Counter()
        for batch in batches():
            found = tokenizer.words(tf.constant(batch[self.config.text], tf.string))
            counts.update(word.decode() for word in found.values.numpy())
        vocabulary, pieces = tokenizer.train(reducer.count(counts), self.config.vocabulary_size)
        return {"vocabulary": vocabulary, "pieces": pieces}

    def load(self, state: Mapping[str, Any]) -> None:
        """Make the tokenizer from what `adapt` has returned, now or in an earlier attempt."""
        self.vocabulary = state["vocabulary"]
        with tf.device("CPU:0"):
            self.tokens = tokenizer.Tokenizer(self.vocabulary, state["pieces"], self.config.max_sequence_length)

    def features(self, columns: Mapping[str, Any]) -> Any:
        """Return the numbers of tokens."""
        assert self.tokens is not None  # noqa: S101  load() comes first
        return self.tokens(columns[self.config.text])

    def model(self) -> keras.Model:
        """Return a model from numbers of tokens [batch, length] to logits [batch, classes]."""
        layers, ops = keras.layers, keras.ops
        length, width = self.config.max_sequence_length, self.size.width
        tokens = keras.Input([length], dtype="int64")
        mask = ops.not_equal(tokens, 0)
        hidden = layers.Embedding(len(self.vocabulary), width)(tokens) + Positions(width)(tokens)
        for _ in range(self.size.blocks):
            hidden = self.block(hidden, ops.expand_dims(mask, 1))
        hidden = layers.LayerNormalization()(hidden)
        counted = ops.expand_dims(ops.cast(mask, hidden.dtype), -1)
        mean = ops.sum(hidden * counted, axis=1) / ops.maximum(ops.sum(counted, axis=1), 1)
        return keras.Model(
            tokens, layers.Dense(self.classes, dtype="float32")(layers.Dropout(self.config.dropout)(mean))
        )

    def block(self, given: Any, mask: Any) -> Any:
        """Return `given` after attention among tokens and a network for each, with normalization before each."""
        layers, rate = keras.layers, self.config.dropout
        width, heads = self.size.width, self.size.heads
        normal = layers.LayerNormalization()(given)
        attention = layers.MultiHeadAttention(heads, width // heads, dropout=rate)
        given += layers.Dropout(rate)(attention(normal, normal, attention_mask=mask))
        hidden = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(given))
        return given + layers.Dropout(rate)(layers.Dense(width)(hidden))

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        """Return the configured optimizer, whose decay leaves out all but matrices of weights."""
        optimizer = super().optimizer(scale)
        if optimizer.weight_decay:
            optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
        return optimizer

    def serving_model(self, model: keras.Model) -> keras.Model:
        """Return the model of tokens: tables of the tokenizer are no part of a Keras model."""
        return model


@keras.saving.register_keras_serializable("transformer")
class Positions(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """The waves that distinguish positions (3.5 of the paper), [length, width], for tokens [batch, length]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def call(self, tokens: Any) -> Any:
        """Return them in the type of the computation."""
        place = np.arange(tokens.shape[1])[:, None] / 10_000 ** (np.arange(0, self.width, 2) / self.width)
        return keras.ops.cast(np.concatenate([np.sin(place), np.cos(place)], axis=1), self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of the layer."""
        return super().get_config() | {"width": self.width}
