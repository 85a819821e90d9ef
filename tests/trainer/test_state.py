"""The state in a checkpoint: it has what a resumed training needs to continue as if it had not stopped."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfdist.contract import Role
from tfdist_trainer.checkpoint import VARIABLES, CheckpointWriter, DataCursor
from tfdist_trainer.fence import Writer
from tfdist_trainer.state import State
from tfdist_trainer.strategies.replica_group import ReplicaGroup
from tfdist_trainer.writer_heartbeat import WriterHeartbeat

pytestmark = pytest.mark.trainer

INPUTS = np.ones([2, 50], np.float32)


def new_state(gang: ReplicaGroup) -> State:
    keras.utils.set_random_seed(1)
    with gang.strategy.scope():
        layers = [keras.layers.Input([50]), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
        model, optimizer = keras.Sequential(layers), keras.optimizers.Adam()
        optimizer.build(model.trainable_variables)
    return State(model, optimizer)


def masks(gang: ReplicaGroup, state: State) -> list[np.ndarray]:
    """Return which inputs each replica keeps in its next step."""
    dropout: Any = state.model.layers[0]

    @tf.function  # type: ignore[untyped-decorator]
    def step() -> Any:
        return gang.strategy.run(lambda: dropout(INPUTS, training=True))

    return [each.numpy() for each in gang.strategy.experimental_local_results(step())]


WRITER = Writer(job="u", name="fashion", namespace="ml", role=Role.WORKER, index=0, attempt=0, host="h")


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    made = CheckpointWriter(tmp_path, keep=9, writer=WRITER)
    made.claim()
    yield made
    WriterHeartbeat(tmp_path, "u").stop()


def test_a_resumed_training_draws_the_random_numbers_that_follow(gang: ReplicaGroup, writer: CheckpointWriter) -> None:
    # given
    undisturbed = new_state(gang)
    first = masks(gang, undisturbed)
    report = undisturbed.save(writer, DataCursor(step=1))
    expected = masks(gang, undisturbed)
    assert not np.array_equal(first, expected), "else the test shows nothing"
    # when
    resumed = new_state(gang)
    resumed.restore(Path(report.path))
    # then
    np.testing.assert_array_equal(masks(gang, resumed), expected)


def test_a_checkpoint_without_random_seeds_is_restored(gang: ReplicaGroup, tmp_path: Path) -> None:
    # given
    saved, resumed = new_state(gang), new_state(gang)
    saved.model.trainable_variables[0].assign(np.full([50, 1], 3.0))
    step, epoch = (tf.Variable(0, dtype=tf.int64) for _ in range(2))
    parts = tf.train.Checkpoint(model=saved.model, optimizer=saved.optimizer, step=step, epoch=epoch)
    parts.write(str(tmp_path / VARIABLES))
    # when
    resumed.restore(tmp_path)
    # then
    assert resumed.model.trainable_variables[0].numpy().tolist() == [[3.0]] * 50
