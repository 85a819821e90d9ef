"""The rows of the parts of a batch: equally many, of zipped batches, or no rows that workers could take."""

import functools
import re
from collections.abc import Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from tfdist_trainer import log
from tfdist_trainer.keras.replica_step import examples_in

_BEGIN: Final = "The parts of a batch have different numbers of rows, of which each worker takes its own:"
_REMEDY: Final = (
    "Batches of different sizes are possible in data sets that are batched and then zipped, by tf.data.Dataset.zip. If "
    "a batch is a graph, or has a part without rows, such as a vocabulary, let each worker read batches of its "
    "own by strategy.distribute_datasets_from_function, or make each graph one row, of ragged tensors"
)
_FAILED: Final = re.compile(rf"assertion failed: \[({_BEGIN}.*?{re.escape(_REMEDY)})\]", re.DOTALL)
_MOST_NAMED: Final = 8
"""Parts that an error names."""
_LONGEST_NAME: Final = 60
"""Characters of the name of a part."""


class RowsCheck:
    """Checks each batch of a data set before workers take their rows of it."""

    def __init__(self, spec: Any, batches: Sequence[tuple[int, int]] | None, workers: int) -> None:
        """Check batches of this `spec`.

        Args:
            spec: shapes and types.
            batches: for each part, which `batch` has made its rows, and how many; None if unknown.
            workers: number of workers.

        Raises:
            ValueError: batches have different sizes, and the first one fewer rows than there are workers.
        """
        parts = tf.nest.flatten(spec)
        kept = [index for index, part in enumerate(parts) if has_rows(part)]
        paths = keras.tree.flatten_with_path(tf.nest.pack_sequence_as(spec, range(len(parts))))
        names = {index: _name(path, spec) for path, index in paths}
        self._names = [names[index] for index in kept]
        self._batches = None if batches is None else [batches[index] for index in kept]
        sizes = [size for _, size in self._batches or ()]
        # Zipped batches of different sizes are legitimate, such as labelled and unlabelled examples.
        if len(set(sizes)) > 1:
            named = ", ".join(f"{name} {size}" for name, size in zip(self._names, sizes, strict=True))
            if sizes[0] < workers:
                raise ValueError(
                    f"Zipped batches have different numbers of rows ({named}), and the first one, which has the "
                    f"weight, fewer than there are workers ({workers}). Zip the larger batches first, or use fewer "
                    "workers"
                )
            _report(named, self._names[0])

    def __call__(self, batch: Any) -> None:
        """Check a `batch`, in the graph of a data set.

        Raises:
            tf.errors.InvalidArgumentError: its parts have different numbers of rows, and are no zipped batches; see
                `batch_message`.
        """
        rows = [examples_in(part) for part in tf.nest.flatten(batch) if has_rows(part)]
        if len(rows) > 1:
            names = [" " + name for name in self._names[:_MOST_NAMED]]
            named = [text for name, count in zip(names, rows, strict=False) for text in (f"{name} has", count)]
            tf.debugging.Assert(self._is_right(rows), [_BEGIN, *named, _REMEDY])

    def _is_right(self, rows: list[tf.Tensor]) -> tf.Tensor:
        are_equal = tf.reduce_all(tf.equal(rows, rows[0]))
        if self._batches is None:
            return are_equal
        # Parts of one `batch` must agree; parts of different ones may differ.
        first = dict(reversed([(batch, count) for (batch, _), count in zip(self._batches, rows, strict=True)]))
        same = [tf.equal(count, first[batch]) for (batch, _), count in zip(self._batches, rows, strict=True)]
        within = [count <= size for (_, size), count in zip(self._batches, rows, strict=True)]
        return are_equal | tf.reduce_all([*same, *within])


def batch_message(error: tf.errors.OpError) -> str | None:
    """Return the message about a batch in an `error` of a call; None if it has another reason."""
    found = _FAILED.search(str(error))
    if found is None:
        return None
    # TensorFlow escapes the bytes of texts in an assertion.
    text = found[1].encode().decode("unicode_escape").encode("latin-1").decode(errors="replace")
    begin, *parts, remedy = text.split("] [")
    counts = ", ".join(f"{name.strip()} {count}" for name, count in zip(parts[::2], parts[1::2], strict=False))
    return f"{begin} {counts}. {remedy}"


def has_rows(part: Any) -> bool:
    """Return whether `part` of a batch, or its specification, has a dimension of rows."""
    shape = getattr(part, "shape", None)
    return isinstance(shape, tf.TensorShape) and shape.rank != 0 and not isinstance(part, _OPTIONALS)


_OPTIONALS: Final = (tf.experimental.Optional, tf.OptionalSpec)


@functools.cache
def _report(sizes: str, first: str) -> None:
    log.event("rows-differ", batches=sizes, weight=first)


def _name(path: tuple[Any, ...], spec: Any) -> str:
    """Return a name such as `x['atoms']` for the part at `path`."""
    if isinstance(spec, tuple) and len(spec) <= 3:  # noqa: PLR2004  as `fit` unpacks it
        name, path = ("x", "y", "sample_weight")[path[0]], path[1:]
    else:
        name = "x"
    return (name + "".join(f"[{key!r}]" for key in path))[:_LONGEST_NAME]
