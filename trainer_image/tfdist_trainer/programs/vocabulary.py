"""Strings as numbers: a list of them, made from counts, and its lookup in the input's graph."""

from collections.abc import Mapping, Sequence

import tensorflow as tf


class Vocabulary:
    """Numbers its strings from 1; 0 is what is not among them.

    Args:
        strings: at least one, each once.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self.strings = tuple(strings)
        with tf.device("CPU:0"):
            keys = tf.constant(self.strings, tf.string, [len(self.strings)])
            values = tf.range(1, len(self.strings) + 1, dtype=tf.int64)
            self._table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(keys, values), 0)

    def __len__(self) -> int:
        return len(self.strings)

    def codes(self, strings: tf.Tensor) -> tf.Tensor:
        """Return the number of each of `strings`, int64 of the same shape."""
        return self._table.lookup(strings)


def most_frequent(counts: Mapping[str, int], size: int | None = None) -> list[str]:
    """Return the `size` most frequent strings, those of equal counts in the order of their characters."""
    order = sorted(counts, key=lambda string: (-counts[string], string))
    return order[:size]
