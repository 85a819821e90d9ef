"""Two replicas on two logical devices of this process."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist_trainer.strategies.replica_group import ReplicaGroup


def distributed(gang: ReplicaGroup, batches: list[tuple[Any, ...]]) -> Iterator[Any]:
    """Return an iterator that gives batch k to replica k, again and again."""

    def endless(_context: Any) -> tf.data.Dataset:
        parts = [tf.data.Dataset.from_tensors(item) for item in batches]
        return parts[0].concatenate(parts[-1]).repeat()

    iterator: Iterator[Any] = iter(gang.strategy.distribute_datasets_from_function(endless))
    return iterator


def on_replicas(gang: ReplicaGroup, variable: Any) -> np.ndarray:
    """Return the values of a TensorFlow variable on the replicas."""
    return np.array([value.numpy() for value in gang.strategy.experimental_local_results(variable)])
