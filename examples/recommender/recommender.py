"""Recommends items to users: two towers over hashed ids, as retrieval models have them.

The interactions are not real but generated from a latent-factor model with a fixed seed. Users and items have four
hidden tastes each, and items a popularity; a user takes the best of sixteen random items, up to chance. For each item
that was taken there is a random one as a negative example. The model sees ids only.
"""

from typing import Final

import keras
import numpy as np
import tensorflow as tf

import tfdist_trainer

USERS: Final = 2_000
ITEMS: Final = 1_000
TASTES: Final = 4
CHOICES: Final = 16
SEED: Final = 7


class Config(tfdist_trainer.ProgramConfig):
    """Sizes of the model and the data."""

    user_rows: int = 600_000
    item_rows: int = 400_000
    """Of the tables: ids are hashed into them, so that new ones need no vocabulary. Most rows stay unused here."""
    width: int = 8
    interactions: int = 200_000
    """In the training data; the test data have a tenth of that."""


class TwoTowers(tfdist_trainer.Program):
    """Predicts from two ids, as text, whether the user takes the item: a logit."""

    Config = Config

    def model(self) -> keras.Model:
        """Return the dot product of a user's and an item's vector."""
        ids = {name: keras.Input([], dtype="string", name=name) for name in ("user", "item")}
        user = self.tower(ids["user"], self.config.user_rows)
        item = self.tower(ids["item"], self.config.item_rows)
        return keras.Model(ids, keras.ops.sum(user * item, axis=-1))

    def tower(self, ids: keras.KerasTensor, rows: int) -> keras.KerasTensor:
        """Return the vectors of `ids`."""
        hashed = keras.layers.Hashing(rows)(ids)
        start = keras.initializers.RandomNormal(stddev=0.3)
        vectors = keras.layers.Embedding(rows, self.config.width, embeddings_initializer=start)(hashed)
        hidden = keras.layers.Dense(32, activation="relu")(vectors)
        return keras.layers.Dense(self.config.width)(hidden) + vectors

    def dataset(self, split: tfdist_trainer.Split, shard: tfdist_trainer.Shard) -> tf.data.Dataset:
        """Return pairs of ids, each with 1 if the user took the item, and 0 if it is a random one."""
        is_training = split == tfdist_trainer.Split.TRAIN
        count = self.config.interactions if is_training else self.config.interactions // 10
        users, items, labels = interactions(count, seed=1 if is_training else 2)
        mine = slice(shard.index, None, shard.count)
        ids = {"user": as_text("user", users[mine]), "item": as_text("item", items[mine])}
        return tf.data.Dataset.from_tensor_slices((ids, labels[mine]))

    def loss(self, labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
        """Return the binary cross entropy of each example."""
        return tf.nn.sigmoid_cross_entropy_with_logits(labels, predictions)

    def metrics(self) -> list[keras.metrics.Metric]:
        """Return the area under the ROC curve: 0.5 by chance."""
        return [keras.metrics.AUC(from_logits=True, name="auc")]


def interactions(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return users, items and labels of `count` taken items and as many random ones, in random order."""
    tastes = np.random.default_rng(SEED)  # the same for all splits
    of_users, of_items = (tastes.normal(size=(number, TASTES)).astype(np.float32) for number in (USERS, ITEMS))
    popularity = tastes.normal(size=ITEMS)
    random = np.random.default_rng([SEED, seed])
    users = random.integers(USERS, size=count)
    offered = random.integers(ITEMS, size=(count, CHOICES))
    suits = np.einsum("ut,uct->uc", of_users[users], of_items[offered]) + popularity[offered]
    suits += random.gumbel(size=offered.shape)
    taken = offered[np.arange(count), suits.argmax(axis=1)]
    items = np.concatenate([taken, random.integers(ITEMS, size=count)])
    labels = np.repeat(np.float32([1, 0]), count)
    order = random.permutation(2 * count)
    return np.tile(users, 2)[order], items[order], labels[order]


def as_text(kind: str, numbers: np.ndarray) -> tf.Tensor:
    """Return ids such as "user-17", as a log of a shop would have them."""
    return tf.strings.join([f"{kind}-", tf.strings.as_string(numbers)])
