"""Optimizers of a model in a checkpoint: each is found, wherever the model keeps it, and built again as it was."""

import signal
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
from trainer.resumed_scripts import PROGRAM, Script

from tfdist.contract import ExitCode
from tfdist_trainer.keras import model_optimizers, training_state
from tfdist_trainer.keras.training_state import FitSnapshot
from tfdist_trainer.stored_checkpoint import stored_checkpoint

pytestmark = pytest.mark.trainer

OWN_OPTIMIZERS = PROGRAM.with_name("own_optimizers.py")
"""Three calls of `fit` of 8 steps: the first and the last one of one model, the second one of another."""


def test_optimizers_in_each_place_continue_after_kills(tmp_path: Path) -> None:
    # given
    [alone] = Script(tmp_path / "alone", program=OWN_OPTIMIZERS).until_done()
    script = Script(tmp_path / "run", "SIGTERM@6", "SIGKILL@11", "SIGTERM@13", "SIGTERM@18", program=OWN_OPTIMIZERS)
    # when
    [result] = script.until_done()
    # then
    assert result == alone, script.outputs()
    assert alone[2:4] == [[16] * 8 + [8], False], "updates of each optimizer; the unused one is not built"
    preempted = [ExitCode.PREEMPTED]
    assert script.exit_codes == [preempted, [-signal.SIGKILL], preempted, preempted, [0]]
    assert "restored step=19" in (script.folder / "4-0.txt").read_text(), script.outputs()
    assert "optimizer-restarted" not in script.outputs()
    named = (script.folder / "4-0.txt").read_text().count("callback-not-stored name=End.file type=TextIOWrapper")
    assert named == 1, script.outputs()


@pytest.mark.long
def test_optimizers_of_two_workers_continue_after_kills(tmp_path: Path) -> None:
    alone, _ = Script(tmp_path / "alone", program=OWN_OPTIMIZERS, workers=2).until_done()
    script = Script(tmp_path / "run", "SIGTERM@6", "SIGTERM@13", "SIGTERM@18", program=OWN_OPTIMIZERS, workers=2)
    first, second = script.until_done()
    assert first[1:3] == second[1:3] == alone[1:3], script.outputs()


class Slots:
    __slots__ = ("optimizer",)

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer


def model_with(**attributes: Any) -> Any:
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(3)])
    model.compile("adam", "mse")
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def test_places_are_those_of_the_script_near_ones_first() -> None:
    # given optimizers in each kind of place, some of them twice, in a loop, and within another one
    one, two, three, four, five, six = [keras.optimizers.SGD() for _ in range(6)]
    slots, loop = Slots(three), SimpleNamespace(again=None)
    loop.again = loop
    part = model_with()
    inner = keras.optimizers.SGD()
    model = model_with(
        nested={"a": [one, {2: two}]}, slots=slots, loop=loop, part=part, pair=(four, one), direct=five,
        inner=[inner], scaled={"scaled": keras.optimizers.LossScaleOptimizer(inner)}, unused=[], seen={six},
        data=[0.0] * 5000,
    )  # fmt: skip
    # when
    found = model_optimizers.optimizers_of(model)
    # then an optimizer in a set, which has no order, is not found
    assert found == {
        "optimizer": model.optimizer, "direct": five, "slots.optimizer": three, "part.optimizer": part.optimizer,
        "pair[0]": four, "pair[1]": one, "nested['a'][1][2]": two, "scaled['scaled']": model.scaled["scaled"],
    }  # fmt: skip
    assert next(iter(found)) == "optimizer"


def snapshot_of(models: Sequence[Any], folder: Path) -> FitSnapshot:
    """Return the optimizers as a checkpoint has them."""
    arrays: dict[str, Any] = {}
    FitSnapshot(arrays, {"optimizers": model_optimizers.encode_optimizers(models, arrays)}).write(
        str(folder / "variables")
    )
    return training_state.read(stored_checkpoint(folder))


def test_an_optimizer_that_was_not_built_stays_so(tmp_path: Path) -> None:
    # given
    before, after = (model_with(second=keras.optimizers.Adam(), later=keras.optimizers.Adam()) for _ in range(2))
    before.second.build(before.trainable_variables[1:])
    before.later.learning_rate = 0.25
    snapshot = snapshot_of([before], tmp_path)
    # when
    model_optimizers.restore(0, after, snapshot, "here")
    # then
    assert [after.optimizer.built, after.second.built, after.later.built] == [False, True, False]
    assert [tuple(each.shape) for each in after.second.variables] == [
        tuple(each.shape) for each in before.second.variables
    ]
    assert float(after.later.learning_rate.numpy()) == 0.25
    assert not model_optimizers.was_built(0, snapshot)


def test_an_optimizer_that_is_elsewhere_begins_again_and_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # given
    before, after = model_with(first=[keras.optimizers.Adam()]), model_with(renamed=[keras.optimizers.Adam()])
    before.first[0].build(before.trainable_variables)
    snapshot = snapshot_of([before], tmp_path)
    # when
    model_optimizers.restore(0, after, snapshot, "here")
    # then
    output = capsys.readouterr().out
    assert "optimizer-restarted place=first[0]" in output
    assert "optimizer-restarted place=renamed[0]" in output


def test_an_optimizer_that_no_model_has_is_found_when_it_updates_the_variables_of_one() -> None:
    # given
    model_optimizers.watch()
    model, optimizer, of_model = model_with(), keras.optimizers.SGD(), keras.optimizers.Adam()
    model.scaled = [keras.optimizers.LossScaleOptimizer(of_model)]
    # when
    gradients = [0 * variable.value for variable in model.trainable_variables]
    for each in (optimizer, model.scaled[0]):
        each.apply(gradients, model.trainable_variables)
    # then
    assert model_optimizers.not_found([model]) == [optimizer]
    assert model_optimizers.not_found([model_with()]) == []
