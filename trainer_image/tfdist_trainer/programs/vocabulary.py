"""Vocabularies: created from counts, looked up in the graph of the input pipeline."""

from collections.abc import Mapping, Sequence

import tensorflow as tf


class Vocabulary:
    """Maps its strings to indices from 1; 0 is out of vocabulary.

    Args:
        strings: at least one, without duplicates.
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
        """Return the index of each of `strings`, int64 of the same shape."""
        return self._table.lookup(strings)


def most_frequent(counts: Mapping[str, int], size: int | None = None) -> list[str]:
    """Return the `size` most frequent strings, equal counts in lexicographic order."""
    order = sorted(counts, key=lambda string: (-counts[string], string))
    return order[:size]
