"""Checkpoints of a Keras script: killed or preempted in any phase, it ends with the history of one left alone."""

import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from trainer import exported
from trainer.resumed_scripts import STEPS, Script

from tfdist.contract import ExitCode
from tfdist_trainer.checkpoint import CheckpointReader, name_of
from tfdist_trainer.evaluation_store import protected_steps

pytestmark = pytest.mark.trainer


def test_a_script_that_is_killed_and_preempted_ends_with_the_history_of_one_left_alone(
    undisturbed: list[Any], tmp_path: Path
) -> None:
    # given kills before the first checkpoint, within an epoch and in the second `fit`, and SIGTERM within an epoch
    script = Script(tmp_path / "run", "SIGKILL@3", "SIGTERM@12", "SIGKILL@23")
    # when
    [[*histories, weights, seen]] = script.until_done()
    # then
    assert [histories, weights] == [undisturbed[:2], undisturbed[2]]
    assert script.exit_codes == [[-signal.SIGKILL], [ExitCode.PREEMPTED], [-signal.SIGKILL], [0]]
    # then SIGTERM has saved the step that it arrived in, and the last checkpoint is at the end of the script
    assert "restored step=13 epoch=2" in (script.folder / "2-0.txt").read_text(), script.outputs()
    final = CheckpointReader(script.folder / "checkpoints").final("1")
    assert final is not None
    assert (final.step, final.total_steps) == (STEPS, STEPS)
    # then a callback has the state that it had in one process, but for what the constructor gave it
    assert seen == undisturbed[3] == [*range(1, 22), *range(22, 30)]
    # then the validations of all attempts are those of the first `fit`, and the checkpoint of the best one is kept
    losses = histories[0]["val_loss"]
    best = 7 * (losses.index(min(losses)) + 1)
    reports = [script.message().evaluation, script.message().best_evaluation]
    assert [(each.step, each.examples) for each in reports if each] == [(21, 30), (best, 30)]
    assert [each.metrics["loss"] for each in reports if each] == [losses[-1], min(losses)]
    assert protected_steps(script.folder / "checkpoints") == frozenset({best})
    assert (script.folder / "checkpoints" / name_of(best)).exists()
    # then the exported models are the one that the script has ended with, and the best one
    assert [(each.which, each.step) for each in script.message().exports] == [("Final", STEPS), ("Best", best)]
    assert weights_of(script.folder / "models/final/model.keras") == pytest.approx(weights, rel=1e-6)
    x, y = validation_data()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for found in exported.predictions(script.folder / "models/best", x):
        assert float(loss(y, found)) == pytest.approx(min(losses), rel=1e-5)


def weights_of(file: Path) -> float:
    """Return the checksum that the script computes."""
    return float(sum(np.abs(weight).sum() for weight in keras.models.load_model(file).get_weights()))


def validation_data() -> tuple[Any, Any]:
    """Return that of the script."""
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 8)).astype("float32")
    return x[:30], (x @ random.normal(size=(8, 3))).argmax(1)[:30]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_workers_that_are_killed_and_preempted_end_with_the_history_of_two_left_alone(tmp_path: Path) -> None:
    # given
    [alone, _] = Script(tmp_path / "alone", workers=2).until_done()
    script = Script(tmp_path / "run", "SIGKILL@3", "SIGKILL@9@1", "SIGTERM@12@1", "SIGTERM@25", workers=2)
    # when
    first, second = script.until_done()
    # then
    assert first == second
    assert first[2:] == alone[2:], "weights, and the state of a callback"
    # the sums of the metrics of an interrupted epoch are put together in another order
    for history, expected in zip(first[:2], alone[:2], strict=True):
        assert history == {name: pytest.approx(values, rel=1e-6) for name, values in expected.items()}
    assert script.exit_codes[2:] == [[ExitCode.PREEMPTED] * 2] * 2 + [[0, 0]], script.outputs()
    last = script.message().last_checkpoint
    assert last is not None
    assert last.step == STEPS
    assert weights_of(script.folder / "models/final/model.keras") == pytest.approx(first[2], rel=1e-6)
    assert script.message().exports[0].step == STEPS
