"""Data sets in memory that are too large to be sent to a worker of parameter servers."""

from types import SimpleNamespace

import pytest
import tensorflow as tf
from tensorflow.python.distribute.coordinator import values

from tfdist_trainer.upstream import coordinator

pytestmark = pytest.mark.trainer


def test_a_data_set_that_is_too_large_to_be_sent_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given what TensorFlow returns for a graph of more than 2 GB, an empty string."""
    monkeypatch.setattr(values, "serialize_dataset_to_graph", lambda _: tf.constant(b""))
    workers = SimpleNamespace(_cluster=SimpleNamespace(workers=[None, None]), strategy=None)
    with pytest.raises(coordinator.DatasetTooLargeError) as caught:
        coordinator.per_worker_iterator(workers, lambda _index, _count: tf.data.Dataset.range(1))
    assert caught.value.worker == 0


@pytest.mark.long  # half a minute, and ten gigabytes of memory
def test_the_graph_of_a_data_set_of_more_than_2_gb_is_an_empty_string() -> None:
    numbers = tf.zeros([2**31 + 2**20], tf.uint8)
    dataset = tf.data.Dataset.range(1).map(lambda index: tf.gather(numbers, index))
    assert values.serialize_dataset_to_graph(dataset) == b""
