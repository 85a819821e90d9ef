"""Scripts of a job with checkpoints: killed within an epoch, they end with the numbers of a run left alone."""

import signal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from trainer.resumed_scripts import Script

from tfdist.contract import ExitCode

from .expected import EXPECTED, SCRIPTS, Equal
from .test_scripts import RUNNER
from .workers import assert_close, cluster, results

NAMES: Final = (
    *("autoencoder", "custom_train_step", "image_classifier", "knowledge_distillation", "learning_rate_schedules"),
    *("own_metrics", "sequence_to_sequence", "text_transformer", "timeseries_lstm", "variational_autoencoder"),
    "wide_and_deep",
)


class KilledScript(Script):
    """A script whose worker 1 kills itself in the first attempt, at the first batch after a checkpoint."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, workers=2, program=SCRIPTS / f"{name}.py")

    def command(self, rank: int) -> list[str]:
        is_killed = rank == 1 and not self.exit_codes
        options = ["--kill-after", f"{self.folder}/checkpoints"] if is_killed else []
        return [str(RUNNER), "--job", *options, str(self._program), str(self._results(rank))]

    def result(self, rank: int) -> dict[str, Any]:
        with np.load(self._results(rank)) as arrays:
            return dict(arrays)

    def _results(self, rank: int) -> Path:
        return self.folder / f"{rank}.npz"


@pytest.mark.trainer
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_a_killed_script_ends_with_the_numbers_of_one_left_alone(name: str, tmp_path: Path) -> None:
    # given a worker that is killed within an epoch
    script = KilledScript(tmp_path / "killed", name)
    # when the job starts its workers again
    first, second = script.until_done()
    # then one was killed, and the next attempt has gone on from a checkpoint
    assert [-signal.SIGKILL in codes for codes in script.exit_codes] == [True, False], script.outputs()
    assert script.exit_codes[-1] == [ExitCode.DONE] * 2
    assert "restored step=" in (script.folder / "1-0.txt").read_text(), script.outputs()
    # then both workers have the same numbers, which are those of a run that nobody has killed
    assert_close(second, first, tolerance=0.0)
    expected = EXPECTED[name]
    one_process = isinstance(expected, Equal)
    options = ["--default-strategy"] if isinstance(expected, Equal) and expected.without_strategy else []
    configs: list[str | None] = [None] if one_process else cluster(2)
    undisturbed, *_ = results([str(RUNNER), *options, str(SCRIPTS / f"{name}.py")], tmp_path / "undisturbed", configs)
    assert_close(first, undisturbed, tolerance=expected.tolerance if isinstance(expected, Equal) else 1e-6)
