"""Two workers that train with TensorFlow under launchers: a killed program costs steps, and no example."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.launchers import EXAMPLES, Launchers, program_of, tf_environ, training_job, trains

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import FinalRecord, read_record

if TYPE_CHECKING:
    from launch.conftest import Launch

pytestmark = pytest.mark.trainer

EPOCHS = 150


@pytest.fixture
def training(tmp_path: Path, launch: "Launch") -> Launchers:
    """Two workers that train for longer than the tests need, with a checkpoint every 100 steps."""
    job = training_job(tmp_path, epochs=EPOCHS)
    return launch(2, command=("--", "python", "-m", "tfdist_trainer"), job=job, environ_of=tf_environ(2))


def test_training_continues_after_each_kill_and_uses_every_example_once(training: Launchers, tmp_path: Path) -> None:
    for number, rank in enumerate([1, 0]):
        trains(training, number, beyond=120 * (number + 1))
        os.kill(program_of(training, rank), signal.SIGKILL)
    gang = training.gang_when(lambda gang: len([f for f in gang.failures if f.root_cause]) == 2)
    assert [(f.index, f.exit_code) for f in gang.failures if f.root_cause] == [(1, 137), (0, 137)]
    assert training.wait() == [0, 0], training.output()
    assert training.output().count("restored step=") == 4
    final = FinalRecord.model_validate_json((tmp_path / "checkpoints" / "final.json").read_bytes())
    record = read_record(Path(final.path))
    assert record.cursor.examples == EPOCHS * EXAMPLES, "an example was repeated or skipped"
    assert (record.writer.attempt, record.writer.round) == (0, 2)


@pytest.mark.long
def test_a_terminating_pod_has_the_whole_gang_save_and_wait_for_its_replacement(training: Launchers) -> None:
    trains(training, 0, beyond=20)
    training.processes[1].terminate()
    assert training.exit_code(training.processes[1]) == ExitCode.PREEMPTED, training.output()
    message = training.termination(1)
    assert message.last_checkpoint is not None
    assert message.last_checkpoint.step == message.step
    waits = training.gang_when(lambda gang: gang.waiting_for)
    assert (waits.restarts.counted, waits.restarts.uncounted) == (0, 0)
    training.start(1, attempt=1)
    trains(training, 1, beyond=message.step or 0)
    for process in training.processes.values():
        process.terminate()
    assert training.wait() == [ExitCode.PREEMPTED] * 2, training.output()
