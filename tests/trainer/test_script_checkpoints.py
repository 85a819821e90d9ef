"""Checkpoints of a Keras script: killed or preempted in any phase, it ends with the history of one left alone."""

import functools
import json
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import keras
import numpy as np
import pytest
from support.forked import Fork
from support.polling import WAIT_SECONDS, wait_for
from support.ports import free_ports
from trainer import exported

from tfdist.contract import ExitCode
from tfdist.contract_reports import TerminationMessage
from tfdist_trainer.checkpoint import CheckpointReader, name_of
from tfdist_trainer.evaluation_store import protected_steps

pytestmark = pytest.mark.trainer

PROGRAM: Final = Path(__file__).parents[1] / "support/programs/resumed_fit.py"
STEPS: Final = 3 * 7 + 2 * 4
"""Batches of both calls of `fit` in the script."""
ATTEMPTS: Final = 8


class Script:
    """The script in a folder of its own, which all attempts and workers share."""

    def __init__(self, folder: Path, *ends: str, workers: int = 1) -> None:
        folder.mkdir()
        self.folder = folder
        self.exit_codes: list[list[int]] = []
        self._ends, self._workers = ends, workers

    def until_done(self) -> list[Any]:
        """Start the script again until it succeeds, as its job does; return the results of each worker."""
        for attempt in range(ATTEMPTS):
            forks = [*self._started(attempt)]
            try:
                wait_for("the workers", functools.partial(is_over, forks), context=self.outputs)
            finally:
                for fork in forks:
                    fork.send_signal(signal.SIGKILL)
            self.exit_codes.append([fork.wait(WAIT_SECONDS) for fork in forks])
            if not any(self.exit_codes[-1]):
                return [json.loads((self.folder / f"{rank}.json").read_text()) for rank in range(self._workers)]
        raise AssertionError(f"ended with {self.exit_codes}\n{self.outputs()}")

    def outputs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.txt")))

    def message(self) -> TerminationMessage:
        """Return the termination message of the chief."""
        return TerminationMessage.model_validate_json((self.folder / "0.termination").read_bytes())

    def _started(self, attempt: int) -> Iterator[Fork]:
        addresses = [f"127.0.0.1:{port}" for port in free_ports(self._workers)]
        for rank in range(self._workers):
            place = {"role": "worker", "index": rank, "replicas": {"worker": self._workers}, "attempt": attempt}
            job = {"name": "job", "namespace": "default", "uid": "1", "strategy": "MultiWorkerMirrored"} | place
            job["checkpoint"] = {"directory": str(self.folder / "checkpoints"), "everySteps": 4}
            models = {"directory": str(self.folder / "models"), "formats": exported.FORMATS, "which": ["Final", "Best"]}
            job["export"] = models
            environ = {key: value for key, value in os.environ.items() if key != "TF_CONFIG"}
            environ |= {"TFDIST_JOB": json.dumps(job), "TFDIST_REPORT_PORT": "0", "CUDA_VISIBLE_DEVICES": ""}
            environ |= {"TFDIST_TERMINATION_LOG": str(self.folder / f"{rank}.termination")}
            if self._workers > 1:
                task = {"type": "worker", "index": rank}
                environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": task})
            script = [str(PROGRAM), str(self.folder / f"{rank}.json"), *self._ends]
            yield Fork(environ, self.folder / f"{attempt}-{rank}.txt", script, self.folder)


def is_over(forks: Sequence[Fork]) -> bool:
    """Return whether all have ended, or one was killed, which the others wait for."""
    codes = [fork.poll() for fork in forks]
    return None not in codes or any(code not in {None, 0, ExitCode.PREEMPTED} for code in codes)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    [result] = Script(tmp_path_factory.mktemp("undisturbed") / "run").until_done()
    return result  # type: ignore[no-any-return]


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


def test_sigterm_saves_the_step_it_arrived_in(tmp_path: Path) -> None:
    # given
    script = Script(tmp_path / "run", "SIGTERM@10")
    # when
    script.until_done()
    # then the second attempt begins there
    assert script.exit_codes == [[ExitCode.PREEMPTED], [0]]
    assert "restored step=11 epoch=2" in (script.folder / "1-0.txt").read_text(), script.outputs()


def test_the_last_checkpoint_has_the_end_of_the_script(tmp_path: Path) -> None:
    # when
    script = Script(tmp_path / "run")
    script.until_done()
    # then
    final = CheckpointReader(script.folder / "checkpoints").final("1")
    assert final is not None
    assert (final.step, final.total_steps) == (STEPS, STEPS)


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
