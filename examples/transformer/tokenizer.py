"""Byte-pair encoding (Sennrich et al., arXiv 1508.07909) of words, trained on how often they occur."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import keras
import tensorflow as tf

PADDING: Final = ""
UNKNOWN: Final = "[UNK]"
END: Final = "_"
"""Ends a word, so that its last piece differs from the same letters within a word."""
LEAST: Final = 2
"""Occurrences of a pair that becomes a piece: one that occurs once stands for one word."""


def words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Return the words of each text in lower case: letters and digits, and each other character as one word."""
    spaced = tf.strings.regex_replace(tf.strings.lower(texts), r"([^a-z0-9\s])", r" \1 ")
    return tf.strings.split(spaced)


def train(counts: Mapping[str, int], size: int) -> tuple[list[str], dict[str, list[int]]]:
    """Return a vocabulary of at most `size` pieces, and the pieces of each word in `counts` by their numbers."""
    split = {word: [*word, END] for word in sorted(counts)}
    vocabulary = [PADDING, UNKNOWN, *sorted({letter for letters in split.values() for letter in letters})]
    pairs: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str], set[str]] = defaultdict(set)

    def count(word: str, times: int) -> None:
        for pair in zip(split[word], split[word][1:], strict=False):
            pairs[pair] += times
            found[pair].add(word)

    for word in split:
        count(word, counts[word])
    queue = [(-times, pair) for pair, times in pairs.items()]
    heapq.heapify(queue)
    while len(vocabulary) < size and queue:
        negative, best = heapq.heappop(queue)
        if pairs[best] != -negative:  # it has been counted again since
            continue
        if pairs[best] < LEAST:
            break
        vocabulary.append("".join(best))
        changed: set[tuple[str, str]] = set()
        for word in found.pop(best):
            changed.update(zip(split[word], split[word][1:], strict=False))
            count(word, -counts[word])
            split[word] = merged(split[word], best)
            count(word, counts[word])
            changed.update(zip(split[word], split[word][1:], strict=False))
        for pair in changed - {best}:
            heapq.heappush(queue, (-pairs[pair], pair))
    numbers = {piece: number for number, piece in enumerate(vocabulary)}
    return vocabulary, {word: [numbers[piece] for piece in pieces] for word, pieces in split.items()}


def merged(pieces: Iterable[str], pair: tuple[str, str]) -> list[str]:
    """Return `pieces` with each occurrence of `pair` as one."""
    result: list[str] = []
    for piece in pieces:
        if result and (result[-1], piece) == pair:
            result[-1] += piece
        else:
            result.append(piece)
    return result


class Tokenizer(keras.layers.Layer):  # type: ignore[misc]  # Keras ships no types
    """Texts [batch] to the numbers of their pieces, int64 [batch, length], padded with 0.

    A word that the training data lack becomes its letters.
    """

    def __init__(self, vocabulary: list[str], pieces: Mapping[str, list[int]], length: int) -> None:
        super().__init__(dtype="int64")
        self.length = length
        # Row 0 is for unknown words.
        self.pieces = tf.ragged.constant([[], *pieces.values()], tf.int64)
        self.rows = table(list(pieces), start=1, default=0)
        self.letters = table(vocabulary, start=0, default=1)

    def call(self, texts: tf.Tensor) -> tf.Tensor:
        """Return the numbers."""
        found = words(texts)
        rows = self.rows.lookup(found.values)
        spelled = tf.where(rows == 0, found.values + END, "")
        letters = tf.strings.unicode_split(spelled, "UTF-8")
        by_letter = letters.with_values(self.letters.lookup(letters.values))
        numbers = tf.concat([tf.gather(self.pieces, rows), by_letter], axis=1)
        return found.with_values(numbers).merge_dims(1, 2).to_tensor(shape=[None, self.length])


def table(keys: list[str], start: int, default: int) -> tf.lookup.StaticHashTable:
    """Return a table from `keys` to numbers from `start` on."""
    values = tf.range(start, start + len(keys), dtype=tf.int64)
    return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(keys), values), default)
