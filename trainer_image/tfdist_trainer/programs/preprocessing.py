"""Preprocessing state that is adapted to the training data before the first step: vocabularies, means, deviations.

As with `adapt` of a Keras preprocessing layer. Every worker reads its own shard, and sums over all shards are reduced;
so the result equals one process that reads everything: counts exactly, sums up to rounding.
`preprocessing_state` stores it.
"""

import json
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer.data.columns import Array
from tfdist_trainer.keras_compat import keras
from tfdist_trainer.programs.from_files import FromFiles

FILE: Final = "program.json"
"""Name of the file with the state, in the checkpoint directory (`preprocessing_state`)."""

OUT_OF_VOCABULARY: Final = "[UNK]"
"""Stands for all strings out of vocabulary in the vocabulary of a Keras layer."""

AllReduceSum = Callable[[Sequence[float]], npt.NDArray[np.float64]]
"""Sums vectors of equal length over all members; a collective, see `ReplicaGroup.all_reduce_sum`."""

_OCTETS: Final = 6
"""Bytes encoded in one float64: up to 2**48 is exact, also if a sum of equal parts rounds."""


class AdaptableProgram(FromFiles, ABC):
    """A program whose preprocessing is adapted to the training data before the model is created."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, Any]:
        """Return the settings that the state depends on, apart from the data; JSON-serializable."""

    @abstractmethod
    def adapt(self, batches: Callable[[], Iterator[dict[str, Array]]], reducer: "Reducer") -> Mapping[str, Any]:
        """Return the state for the data of all members, JSON-serializable; a collective.

        `batches` reads this member's examples.
        """

    @abstractmethod
    def load(self, state: Mapping[str, Any]) -> None:
        """Load the state, from `adapt` of this or an earlier attempt, into Keras preprocessing layers.

        Raises:
            ConfigurationError: another version wrote the state, and this version cannot continue from it.
        """

    @abstractmethod
    def features(self, columns: Mapping[str, Any]) -> Any:
        """Return the model's features, [batch, ...], of the columns of its inputs; after `load`.

        Only by layers of Keras. So the columns may be tensors of the input pipeline, or `keras.Input`s: a model of
        them in front of the trained one takes the columns as they are in the files.
        """

    def serving_model(self, model: keras.Model) -> keras.Model:
        """Return a model from the columns of the inputs by name, as they are in the files, to predictions."""
        columns = [column for column in self.columns() if column.name != self.config.label]
        inputs = {column.name: keras.Input(column.shape, dtype=column.kind, name=column.name) for column in columns}
        return keras.Model(inputs, model(self.features(inputs)))

    def example(self, columns: dict[str, tf.Tensor]) -> tuple[Any, tf.Tensor]:
        """Return the features and the labels; see the base class."""
        return self.features(columns), columns[self.config.label]


class Reducer:
    """Reduces values over all members.

    Args:
        all_reduce_sum: sums vectors over all members.
        rank: of this member.
        size: number of members.
    """

    def __init__(self, all_reduce_sum: AllReduceSum, rank: int, size: int) -> None:
        self.sum = all_reduce_sum
        self._rank = rank
        self._size = size

    def count(self, counts: Mapping[str, int]) -> Counter[str]:
        """Return the sum of all members' `counts`; a collective."""
        if self._size == 1:
            return Counter(counts)
        # The only exchange of the gang is a sum of numbers: texts travel as bytes in float64.
        content = zlib.compress(json.dumps(counts).encode())
        sizes = self.sum([float(len(content)) if rank == self._rank else 0.0 for rank in range(self._size)])
        total: Counter[str] = Counter()
        for rank, size in enumerate(np.rint(sizes).astype(int)):
            # A power of two, so that few graphs are traced. One member after the other, to limit memory.
            words = 1 << int(-(-size // _OCTETS)).bit_length()
            values = pack(content, words) if rank == self._rank else np.zeros(words)
            total.update(json.loads(zlib.decompress(unpack(self.sum(values.tolist()), int(size)))))
        return total


def count_strings(counts: Counter[str], strings: tf.Tensor) -> None:
    """Add to `counts` how often each of `strings`, bytes [n], occurs; bytes that are not UTF-8 are replaced."""
    unique, _, occurrences = tf.unique_with_counts(strings, tf.int64)
    for string, number in zip(unique.numpy().tolist(), occurrences.numpy().tolist(), strict=True):
        counts[string.decode("utf-8", "replace")] += number


def most_frequent(counts: Mapping[str, int], size: int | None = None) -> list[str]:
    """Return the `size` most frequent strings, equal counts in lexicographic order."""
    order = sorted(counts, key=lambda string: (-counts[string], string))
    return order[:size]


def pack(content: bytes, words: int) -> npt.NDArray[np.float64]:
    """Return `content` encoded as `words` numbers, float64 [words], of six bytes each."""
    octets = np.zeros(words * _OCTETS, np.uint8)
    octets[: len(content)] = np.frombuffer(content, np.uint8)
    return octets.reshape(words, _OCTETS).astype(np.float64) @ (256.0 ** np.arange(_OCTETS))


def unpack(numbers: npt.NDArray[np.float64], size: int) -> bytes:
    """Return the `size` bytes that `pack` has encoded as `numbers`."""
    integers = np.rint(numbers).astype("<u8")
    return integers.view(np.uint8).reshape(-1, 8)[:, :_OCTETS].tobytes()[:size]
