"""A private hook of `MultiWorkerMirroredStrategy`: how a replica gets the initial value of a variable."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.distribute.collective_all_reduce_strategy import CollectiveAllReduceExtended

from tfdist_trainer.upstream.hook import Hook, fall_back

_MODULE: Final = "tensorflow.python.distribute.collective_all_reduce_strategy"

INITIAL_VALUE: Final = Hook(
    package="tensorflow",
    name=f"{_MODULE}:CollectiveAllReduceExtended._get_variable_creator_initial_value",
    reason="The strategy broadcasts the initial value of each variable while it creates it, one after the other. Most "
    "starts restore a checkpoint and need none of them; the first one sends them together.",
    missing="TensorFlow broadcasts each initial value while it creates the variable",
    parameters=("self", "replica_id", "device", "primary_var", "kwargs"),
)
HOOKS: Final = (INITIAL_VALUE,)


@contextlib.contextmanager
def local_initial_values(strategy: tf.distribute.Strategy, *, of_all_types: bool = False) -> Iterator[list[Any]]:
    """Create variables of floating point inside without a broadcast; yield those, as they are created.

    Each member has its own initial value of them. Variables of other types, and all of other strategies, have
    the chief's at once.

    Args:
        strategy: that creates them.
        of_all_types: create variables of other types without a broadcast, too.
    """

    def is_local(dtype: Any) -> bool:
        return of_all_types or (dtype is not None and bool(tf.as_dtype(dtype).is_floating))

    created = list[Any]()
    extended = strategy.extended
    # Other strategies broadcast nothing.
    if not isinstance(extended, CollectiveAllReduceExtended):
        yield created
        return
    broadcast = getattr(extended, "_get_variable_creator_initial_value", None)
    if broadcast is None:
        fall_back(INITIAL_VALUE)
        yield created
        return
    # The method of MirroredExtended, the base class: the first replica's value is the member's own.
    local = super(CollectiveAllReduceExtended, extended)._get_variable_creator_initial_value

    def initial_value(*, dtype: Any = None, **options: Any) -> Any:
        return (local if is_local(dtype) else broadcast)(dtype=dtype, **options)

    def creator(create: Any, **options: Any) -> Any:
        variable = create(**options)
        if is_local(options.get("dtype")):
            created.append(variable)
        return variable

    # Contexts may be nested: saving inside of a creation.
    outer = vars(extended).get(INITIAL_VALUE.attribute)
    extended._get_variable_creator_initial_value = initial_value
    try:
        with tf.variable_creator_scope(creator):
            yield created
    finally:
        del extended._get_variable_creator_initial_value
        if outer is not None:
            extended._get_variable_creator_initial_value = outer
