"""Sums and means over replicas, exchanged in packs."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tfdist_trainer.strategies import reduction
from tfdist_trainer.strategies.replica_group import ReplicaGroup

pytestmark = pytest.mark.trainer

SHAPES = [(3, 5), (7,), (), (2, 2, 2), (40,), (1,)]
WEIGHTS = [3.0, 1.0]


def gradients(replica: int, dtype: str) -> list[np.ndarray]:
    """Return the gradients of a replica, every second one of the type `dtype`."""
    random = np.random.default_rng(replica)
    types = [dtype if place % 2 else "float32" for place in range(len(SHAPES))]
    return [random.normal(size=shape).astype(kind) for shape, kind in zip(SHAPES, types, strict=True)]


def awaits_clock(exchange: Any) -> bool:
    """Return whether an operation runs after a clock."""
    seen, left = set[str](), [exchange]
    while left:
        operation = left.pop()
        if operation.name not in seen:
            seen.add(operation.name)
            left += [*operation.control_inputs, *(tensor.op for tensor in operation.inputs)]
    return any(name.rpartition("/")[2].startswith("Timestamp") for name in seen)


@pytest.mark.parametrize(("pack_bytes", "awaiting"), [(1, [False, True]), (1 << 20, [True])])
def test_the_clock_runs_before_the_last_exchange_and_holds_up_no_earlier_one(
    pack_bytes: int, awaiting: list[bool], gang: ReplicaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "PACK_BYTES", pack_bytes)

    @tf.function  # type: ignore[untyped-decorator]
    def exchange() -> Any:
        parts = [tf.random.normal([3]), tf.ones([1]), tf.constant(1.0)]
        return gang.strategy.run(lambda: reduction.timed_all_reduce_mean(parts, 2, due=True))

    operations = exchange.get_concrete_function().graph.get_operations()
    found = [awaits_clock(operation) for operation in operations if operation.type == "CollectiveReduceV2"]
    assert found[::2] == found[1::2], "of both replicas in turn"
    assert sorted(set(found)) == awaiting
    assert found[-1]


@pytest.mark.parametrize("pack_bytes", [1, 64, 1 << 20])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_means_and_sums_do_not_depend_on_the_size_of_packs(
    dtype: str, pack_bytes: int, gang: ReplicaGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "PACK_BYTES", pack_bytes)
    replicas = [gradients(replica, dtype) for replica in range(2)]
    sums = np.array([[1, 2, 3], [10, 20, 30]], np.float32)

    @tf.function  # type: ignore[untyped-decorator]
    def exchange() -> Any:
        def of_replica() -> Any:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            mine = [tf.gather(np.stack(both), replica) for both in zip(*replicas, strict=True)]
            rest = [tf.gather(sums, replica), tf.gather(WEIGHTS, replica)]
            return reduction.timed_all_reduce_mean([*mine, *rest], 2, due=True)

        return gang.strategy.run(of_replica)

    values, seconds = exchange()
    for place, (first, second) in enumerate(zip(*replicas, strict=True)):
        for value in gang.strategy.experimental_local_results(values[place]):
            np.testing.assert_allclose(value, (first + second) / 4, rtol=2e-3 if dtype == "float16" else 1e-6)
            assert value.dtype == first.dtype
    for value in gang.strategy.experimental_local_results(values[-1]):
        np.testing.assert_array_equal(value, sums.sum(axis=0))
    assert all(0 <= each < 60 for each in gang.strategy.experimental_local_results(seconds))
