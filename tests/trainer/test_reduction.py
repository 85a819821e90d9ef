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
