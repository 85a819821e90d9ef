"""A program of the user's own with a tf.data service: what an undisturbed training gets from it."""

import json
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import tensorflow as tf
from support.data_service_program import SERVICE
from support.recording_program import EXAMPLES, JOURNAL

if TYPE_CHECKING:
    from trainer.replicas import Launch

pytestmark = [pytest.mark.trainer, pytest.mark.long]

EPOCHS = 2


def test_two_workers_get_each_example_once_an_epoch_from_two_workers_of_a_service(
    launch: "Launch", tmp_path: Path
) -> None:
    # given
    service = tf.data.experimental.service
    dispatcher = service.DispatchServer(service.DispatcherConfig(port=0))
    address = dispatcher.target.partition("://")[2]
    workers = [service.WorkerServer(service.WorkerConfig(dispatcher_address=address)) for _ in range(2)]
    config = {"epochs": EPOCHS, "batchSizePerReplica": 4}
    job = {"training": {"program": "support.data_service_program:FromService", "config": config}}
    journals = [tmp_path / f"{rank}" for rank in range(2)]
    environs = {rank: {JOURNAL: str(path), SERVICE: dispatcher.target} for rank, path in enumerate(journals)}
    # when
    trained = launch(2, config={}, job=job, environs=environs)
    assert trained.wait() == [0, 0], trained.outputs
    # then
    steps = [json.loads(line) for path in journals for line in path.read_text().splitlines()]
    assert Counter(chain(*steps)) == dict.fromkeys(range(EXAMPLES), EPOCHS)
    del workers
