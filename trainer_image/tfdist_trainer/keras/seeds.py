"""Random numbers under several workers: equal if all read the same data, different in each replica's step."""

import contextlib
import functools
import hashlib
import json
import multiprocessing
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import keras
import numpy as np
import tensorflow as tf

from tfdist.contract import JOB_ENV, TF_CONFIG_ENV
from tfdist_trainer import environment, errors
from tfdist_trainer.keras.replica_step import current_step
from tfdist_trainer.upstream import keras_fit
from tfdist_trainer.upstream.eager_context import has_global_seed

_FACTOR: Final = 0x9E3779B9
"""2**32 divided by the golden ratio: seeds of neighbouring replicas differ in many bits."""
_LARGEST_SEED: Final = 2**31 - 1

_active: Final = threading.local()
_generators: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()
"""The generator of random numbers without a seed, by strategy."""


@functools.cache
def install() -> None:
    """Make Keras and TensorFlow draw different random numbers on each replica in a step; once in each process."""
    keras_fit.wrap(keras_fit.NEXT_SEED, next_seed)
    keras_fit.wrap(keras_fit.GLOBAL_GENERATOR, _replica_generator)
    keras_fit.wrap(keras_fit.OP_SEED, op_seeds)


def share_generator(strategy: Any) -> None:
    """Create the generator of random numbers without a seed for the replicas of `strategy`; a collective.

    Before a step is traced: it is a variable. Python's own random numbers, which seed it, stay as they are.
    """
    if strategy in _generators:
        return
    # Keras seeds its generator from Python's, and the script's numbers must not change by that.
    state = random.getstate()
    with strategy.scope():
        _generators[strategy] = keras.random.SeedGenerator(name="global_seed_generator")
    random.setstate(state)


def _replica_generator(original: Callable[[], Any]) -> Callable[[], Any]:
    def generator() -> Any:
        # In a replica's thread Keras would create a generator of its own, in the middle of a trace.
        if tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context():
            return _generators.get(tf.distribute.get_strategy()) or original()
        return original()

    return generator


@contextlib.contextmanager
def replica_scope(replica: Any) -> Iterator[None]:
    """Draw the random numbers of `replica`, from 0, int32 [], in what this thread traces inside."""
    _active.replica = replica
    try:
        yield
    finally:
        _active.replica = None


def next_seed(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return `SeedGenerator.next` with a separate seed for each replica in a step; the first one has Keras' own."""

    def draw(self: Any, ordered: bool = True) -> Any:
        seed = original(self, ordered)
        step = current_step()
        replica = getattr(_active, "replica", None) if step is None else step.replica
        if replica is None:
            return seed
        # The first replica keeps Keras' seeds, so that one worker draws what it always did.
        offset = tf.cast(replica, tf.uint32) * tf.constant(_FACTOR, tf.uint32)
        return seed + tf.cast(tf.stack([offset, tf.zeros_like(offset)]), seed.dtype)

    return draw


def op_seeds(original: Callable[..., Any]) -> Callable[..., Any]:
    """Return TensorFlow's `get_seed` with separate seeds for each replica in a step of Keras' `fit` or `evaluate`.

    The seeds of an operation such as `tf.random.normal` are attributes: the number of the replica must be a constant.
    """

    def get(op_seed: int | None) -> Any:
        of_graph, of_operation = original(op_seed)
        step = current_step()
        replica = None if step is None else tf.get_static_value(step.replica)
        # Without a global seed TensorFlow draws a random one for each replica anyway.
        if not replica or of_graph is None:
            return of_graph, of_operation
        return (of_graph + int(replica) * _FACTOR) % _LARGEST_SEED, of_operation

    return get


def set_common_seed(environ: Mapping[str, str]) -> None:
    """Set the global seeds of TensorFlow and NumPy to one that is equal on all workers, unless the script has set one.

    Each worker shuffles the whole data set and takes its rows: with different orders, some examples would be trained on
    twice and others never. A later `keras.utils.set_random_seed` or `numpy.random.seed` replaces this seed. NumPy's
    generator in a child process stays as it is: children of one worker would draw the same numbers.
    """
    seed = _common_seed(environ)
    if not has_global_seed():
        tf.random.set_seed(seed)
    # Children of one worker would all draw the same numbers.
    if multiprocessing.parent_process() is None and _is_unseeded():
        np.random.seed(seed)


def _is_unseeded() -> bool:
    """Return whether NumPy's global generator is the one of the start: `seed` and `set_state` leave no `seed_seq`."""
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]  # in no stub
    return isinstance(generator, np.random.MT19937) and generator.seed_seq is not None


def set_python_seed(environ: Mapping[str, str], initial: Any) -> None:
    """Set the seed of the module `random` as `set_common_seed` does.

    The script has set none if the state is the `initial` one, or the one after a draw, as by an import.

    Args:
        environ: of this process.
        initial: `random.getstate()` at the start of the process.
    """
    drawn = random.Random()  # noqa: S311
    drawn.setstate(initial)
    drawn.random()
    # Without the last part, the position: an import may have drawn a few numbers.
    unseeded = {state[1][:-1] for state in (initial, drawn.getstate())}
    if random.getstate()[1][:-1] in unseeded and multiprocessing.parent_process() is None:
        random.seed(_common_seed(environ))


def _common_seed(environ: Mapping[str, str]) -> int:
    """Return a seed that is equal on all workers, 32 bits."""
    return int.from_bytes(hashlib.sha256(_common_text(environ).encode()).digest()[:4])


def _common_text(environ: Mapping[str, str]) -> str:
    """Return a text that is equal on all workers, and different in each job."""
    if JOB_ENV in environ:
        try:
            return environment.read_member(environ).job.uid
        except errors.TrainerError:
            pass
    return json.dumps(json.loads(environ.get(TF_CONFIG_ENV, "{}")).get("cluster"), sort_keys=True)
