"""The calls of Keras that run on this worker. All workers make the same ones, in the same order, on as many batches.

A worker in another call, or without a batch that others have, would block in a collective forever, or add up values of
different meanings.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from tfdist_trainer import log, script_end
from tfdist_trainer.errors import DIFFERENT_COLLECTIVES
from tfdist_trainer.keras import rows_check
from tfdist_trainer.keras.same_data import FirstBatch, first_difference
from tfdist_trainer.strategies.replica_group import HostCollectives
from tfdist_trainer.upstream.strategy_worker import Worker

_NAMES: Final = ("fit", "evaluate", "predict", "validation")
_DEEPEST: Final = 20
"""Nested calls that a float64 can hold, of which each is a digit."""
_VALUES: Final = 3
"""Values of a comparison: equally many in each, so that the collectives of workers in different calls match."""
_MOST_NAMED: Final = 5
"""Workers that an error names."""

_SAME_DATA: Final = (
    "each worker takes its rows of the same batches, so of different ones some rows are used twice and others never. "
    "Give all workers the same data in the same order, and seed what shuffles or splits it, such as "
    "numpy.random.default_rng(SEED) or random_state=SEED; or distribute data of each worker by "
    "strategy.distribute_datasets_from_function"
)

_running: list[str] = []


@contextlib.contextmanager
def call_scope(name: str, strategy: Any, worker: Worker) -> Iterator[None]:
    """Run the call `name` of Keras inside: `fit`, `evaluate`, `predict`, or `validation` for the validation of `fit`.

    Raises:
        RuntimeError: another worker is in another call.
        ValueError: the parts of a batch have different numbers of rows.
    """
    _running.append(name)
    try:
        # A collective before the call: workers in different calls fail here with names, and not in a collective inside.
        comparison(strategy, worker).gather()
        yield
    except tf.errors.OpError as error:
        # The peers may wait in a collective for ever, and the end of the interpreter would wait for TensorFlow's
        # threads.
        script_end.leave_at_once()
        if DIFFERENT_COLLECTIVES.search(str(error)):
            raise RuntimeError(_different(f"this one is in {_describe(_running)}")) from error
        if (message := rows_check.batch_message(error)) is not None:
            raise ValueError(message) from error
        raise
    except Exception:
        script_end.leave_at_once()
        raise
    finally:
        _running.pop()


@functools.lru_cache(maxsize=1)
def comparison(strategy: Any, worker: Worker) -> "Comparison":
    """Return the comparison of the workers of `strategy`, which is traced once."""
    return Comparison(strategy, worker.index, worker.count)


class Comparison:
    """Compares values of all workers, which must be in the same call."""

    def __init__(self, strategy: Any, rank: int, size: int) -> None:
        self._collectives = HostCollectives(strategy, rank, size)

    def gather(self, *values: float) -> npt.NDArray[np.float64]:
        """Return up to three `values` of each worker in order of rank, float64 [workers, values]; a collective.

        Raises:
            RuntimeError: another worker is in another call of Keras.
        """
        # Always the same shape: TensorFlow matches collectives by their order, and rejects other shapes with an error
        # that names no call.
        unused = [0.0] * (_VALUES - len(values))
        calls, *columns = self._collectives.gather_rows(_encode(_running), *values, *unused).T
        if (calls != calls[0]).any():
            raise RuntimeError(_different(_by_worker(calls, "worker {rank} is in {value}", _decode)))
        return np.transpose(columns[: len(values)])

    def chief_values(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the `values` of the chief, float64 [n]; a collective, in which all workers pass equally many."""
        # A sum with zeros is a broadcast, by the one graph that exists already.
        return self._collectives.all_reduce_sum(values if self._collectives.rank == 0 else np.zeros_like(values))

    def check_batches(self, batches: int | None) -> None:
        """Check that all workers have equally many `batches` before they run the first; None if unknown. A collective.

        Raises:
            ValueError: they have not.
            RuntimeError: another worker is in another call of Keras.
        """
        check_equal(self.gather(-1 if batches is None else batches)[:, 0], _describe(_running[-2:]))

    def check_data(self, first: FirstBatch) -> None:
        """Check in `fit` and its validation that all workers have the same `first` batch; a collective.

        If it is not of arrays, random numbers of the script may be in it: a difference is in the log.

        Raises:
            ValueError: they have not.
            RuntimeError: another worker is in another call of Keras.
        """
        # Callbacks may evaluate and predict on data of their own worker.
        if _running[-1:] not in (["fit"], ["validation"]):
            return
        worker = first_difference(self.gather(*first.fingerprint))
        if worker is None:
            return
        of = _describe(_running[-2:])
        # Arrays are equal or wrong; other data may be augmented at random on each worker.
        if first.of_arrays:
            raise ValueError(f"worker 0 and worker {worker} have different data in {of}: {_SAME_DATA}")
        log.event("data-differs", workers=f"0 and {worker}", of=of, unless="it is random", remedy=_SAME_DATA)


def check_equal(batches: npt.NDArray[np.float64], of: str) -> None:
    """Check the number of batches of each worker, negative if unknown, in the call `of`.

    Raises:
        ValueError: two of them differ.
    """
    known = batches[batches >= 0]
    if len(known) and (known != known[0]).any():
        counts = _by_worker(batches, "worker {rank} has {value}", lambda count: str(int(count)) if count >= 0 else "")
        raise ValueError(
            f"The workers have different numbers of batches in {of}: {counts}. Give all workers the same arrays, or "
            "the same data set, of which each takes its rows; or limit all to as many batches, by steps_per_epoch, "
            "validation_steps or steps"
        )


def _by_worker(values: npt.NDArray[np.float64], text: str, described: Any) -> str:
    """Return a list of the first worker with each value."""
    first = dict(reversed([(value, rank) for rank, value in enumerate(values.tolist())]))
    named = sorted((rank, described(value)) for value, rank in first.items())
    texts = [text.format(rank=rank, value=value) for rank, value in named if value][:_MOST_NAMED]
    return ", ".join(texts)


def _different(calls: str) -> str:
    return (
        f"The workers are in different calls of Keras: {calls}. All workers must call fit, evaluate and predict, in "
        "the same order; only what is saved may be left to the chief"
    )


def _encode(calls: list[str]) -> float:
    base = len(_NAMES) + 1
    return float(functools.reduce(lambda code, name: code * base + _NAMES.index(name) + 1, calls[-_DEEPEST:], 0))


def _decode(code: float) -> str:
    calls: list[str] = []
    rest = int(code)
    while rest:
        rest, digit = divmod(rest, len(_NAMES) + 1)
        calls.insert(0, _NAMES[digit - 1])
    return _describe(calls)


def _describe(calls: list[str]) -> str:
    """Return the nested `calls`, the outer ones first, as text."""
    text = ""
    for name in calls:
        if name == "validation":
            text = f"the validation of {text}"
        else:
            text = f"{name} in a callback of {text}" if text else name
    return text
