"""A program whose model is nearly all embedding: few rows of a large table are used in each step."""

import keras
import tensorflow as tf

import tfdist_trainer

ROWS = 50_000
WIDTH = 16
TABLE_BYTES = ROWS * WIDTH * 4
EXAMPLES = 2_000


class Config(tfdist_trainer.ProgramConfig):
    """The optimizer, and the size of the table."""

    optimizer: str = "Adam"
    rows: int = ROWS
    whole_table: bool = False
    """Whether a step reads the whole table and has a gradient of all its rows, as in Keras."""


class WholeTable(keras.layers.Embedding):  # type: ignore[misc]  # Keras has no types
    """A lookup in a copy of the table."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return rows of a product, whose gradient is dense."""
        return tf.gather(tf.convert_to_tensor(self.embeddings) * 1.0, inputs)


class Table(tfdist_trainer.Program):
    """A number for each pair of rows, some of which occur twice in an example."""

    Config = Config

    def model(self) -> keras.Model:
        """Return the mean of two rows, times a vector."""
        numbers = keras.layers.Input([2], dtype="int64")
        layer = WholeTable if self.config.whole_table else keras.layers.Embedding
        rows = layer(self.config.rows, WIDTH, embeddings_initializer=keras.initializers.RandomNormal(seed=1))(numbers)
        start = keras.initializers.GlorotUniform(seed=2)
        return keras.Model(numbers, keras.layers.Dense(1, kernel_initializer=start)(keras.ops.mean(rows, axis=1)))

    def dataset(self, split: tfdist_trainer.Split, shard: tfdist_trainer.Shard) -> tf.data.Dataset:
        """Return the examples, the same for training and evaluation."""
        del split
        first = tf.random.stateless_uniform([EXAMPLES, 1], (1, 2), maxval=self.config.rows, dtype=tf.int64)
        second = tf.where(first % 3 == 0, first, tf.constant(self.config.rows, tf.int64) - 1 - first)
        labels = tf.cast(first % 5, tf.float32)
        examples = tf.data.Dataset.from_tensor_slices((tf.concat([first, second], axis=1), labels))
        return examples.shard(shard.count, shard.index)

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the squared error."""
        return tf.reduce_sum((labels - predictions) ** 2, axis=-1)

    def optimizer(self, scale: float) -> keras.optimizers.Optimizer:
        """Return the optimizer that is configured."""
        optimizer: keras.optimizers.Optimizer = getattr(keras.optimizers, self.config.optimizer)(0.01 * scale)
        return optimizer
