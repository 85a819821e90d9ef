"""Iterators of data sets are deleted in the background."""

import threading
from collections.abc import Iterator

import pytest
import tensorflow as tf
from support.polling import WAIT_SECONDS

from tfdist_trainer.upstream import iterator_deletion

pytestmark = pytest.mark.trainer


def test_the_deletion_of_an_iterator_waits_for_none_of_its_threads() -> None:
    """Given a pipeline whose end waits for the test; when its iterator is deleted, then the test goes on."""
    may_end, ended = threading.Event(), threading.Event()

    def numbers() -> Iterator[int]:
        try:
            yield from range(10)
        finally:
            if may_end.wait(WAIT_SECONDS):
                ended.set()

    iterator_deletion.install()
    iterator = iter(tf.data.Dataset.from_generator(numbers, output_signature=tf.TensorSpec((), tf.int32)))
    assert int(next(iterator)) == 0
    del iterator
    may_end.set()
    assert ended.wait(WAIT_SECONDS)
