"""Has the members of a gang make their variables apart, and gives them the chief's first values together.

`MultiWorkerMirroredStrategy` sends the first value of each variable from the chief to the others while it is made, one
after the other (`tensorflow/python/distribute/collective_all_reduce_strategy.py`). Most starts need none of them, for
a checkpoint replaces them all; the first one needs few messages instead of one for each variable.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

from tfdist_trainer.autograph import graph
from tfdist_trainer.strategies.gang import Gang
from tfdist_trainer.strategies.reduction import add_over_replicas

PACK_BYTES: Final = 1 << 24
"""About how much is sent at once: each pack is in memory three times while it is under way."""
_FIRST_VALUE: Final = "_get_variable_creator_initial_value"
"""TensorFlow's method that returns how a replica comes to the first value of a variable."""


@contextlib.contextmanager
def made_apart(strategy: tf.distribute.Strategy) -> Iterator[list[Any]]:
    """Enter the scope of `strategy`; yield the variables that the members do not tell one another of, as they are made.

    They are alike on all members only after `send`, or when they are restored. Those of other types than floating
    point, and all of other strategies, are alike at once.
    """
    extended, apart = strategy.extended, list[Any]()
    told = getattr(extended, _FIRST_VALUE, None)
    with strategy.scope(), contextlib.ExitStack() as stack:
        if isinstance(extended, CollectiveAllReduceExtended) and told is not None:
            local = getattr(super(CollectiveAllReduceExtended, extended), _FIRST_VALUE)

            def first_value(*, dtype: Any = None, **known: Any) -> Any:
                return (local if _is_float(dtype) else told)(dtype=dtype, **known)

            def creator(make: Any, **known: Any) -> Any:
                variable = make(**known)
                if _is_float(known.get("dtype")):
                    apart.append(variable)
                return variable

            setattr(extended, _FIRST_VALUE, first_value)
            stack.callback(delattr, extended, _FIRST_VALUE)
            stack.enter_context(tf.variable_creator_scope(creator))
        yield apart


def send(gang: Gang, variables: Iterable[Any]) -> None:
    """Set `variables` on all replicas to their values on the chief's first; a collective."""
    for pack in _packs(variables):
        graph(_send_in_graph)(gang, pack)


def _send_in_graph(gang: Gang, variables: Sequence[Any]) -> None:
    def replica() -> None:
        sends = tf.equal(tf.distribute.get_replica_context().replica_id_in_sync_group, 0)
        # Through its handle: a variable with an aggregation would be reduced once more when it is assigned to.
        values = [tf.raw_ops.ReadVariableOp(resource=v.handle, dtype=v.dtype) for v in variables]
        # Not a product with 0, which would make infinity a NaN.
        values = [tf.where(sends, value, tf.zeros_like(value)) for value in values]
        for variable, value in zip(variables, add_over_replicas(values, gang.replicas), strict=True):
            tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)

    gang.strategy.run(replica)


def _packs(variables: Iterable[Any]) -> Iterator[list[Any]]:
    pack: list[Any] = []
    size = 0
    for variable in variables:
        pack.append(variable)
        size += variable.shape.num_elements() * variable.dtype.size
        if size >= PACK_BYTES:
            yield pack
            pack, size = [], 0
    if pack:
        yield pack


def _is_float(dtype: Any) -> bool:
    return dtype is not None and bool(tf.as_dtype(dtype).is_floating)
