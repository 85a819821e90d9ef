"""The examples with KerasTuner and Optuna in a local run: a killed worker restarts alone, and the search ends."""

import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.examples import FOLDER
from support.local_runs import LocalRun
from support.polling import wait_for

from tfdist.local.init_process import descendants

pytestmark = [pytest.mark.trainer, pytest.mark.long]

COLUMNS = "species,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g"
TRIALS = 6


@pytest.fixture
def examples(tmp_path: Path) -> Path:
    """Return a folder in place of the claim of the examples: 90 penguins of three sizes."""
    numbers = random.Random(1)  # noqa: S311  not for secrets
    rows = []
    for number in range(90):
        size = number % 3
        values = (40 + 5 * size, 18 - size, 190 + 12 * size, 3700 + 600 * size)
        noisy = (f"{value * numbers.uniform(0.97, 1.03):.1f}" for value in values)
        rows.append(",".join((("Adelie", "Chinstrap", "Gentoo")[size], *noisy)))
    folder = tmp_path / "claim"
    (folder / "penguins").mkdir(parents=True)
    (folder / "checkpoints").mkdir()
    for name, part in (("train", rows[:60]), ("test", rows[60:])):
        (folder / "penguins" / f"{name}.csv").write_text("\n".join((COLUMNS, *part)))
    return folder


class ExampleRun(LocalRun):
    """A local run of an example, with a folder in place of its claim."""

    def __init__(self, folder: Path, example: str, job: str, claim: Path) -> None:
        self._start(folder, job, "--volume", f"examples={claim}", str(FOLDER / example), TRIALS=str(TRIALS))

    def until(self, replica: str, text: str) -> None:
        """Return once the log of a replica has a text."""
        wait_for(f"{text} of {replica}", lambda: text in self.log(replica) or self.process.poll() is not None)
        assert text in self.log(replica), self.end()[1]

    def kill(self, replica: str) -> None:
        """Kill the process of a replica, which is the newest below the run with its environment."""
        os.kill(max(pid for pid in descendants(self.process.pid) if _replica_of(pid) == replica), signal.SIGKILL)


def _replica_of(pid: int) -> str:
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    job = next((each.partition(b"=")[2] for each in variables if each.startswith(b"TFDIST_JOB=")), b"{}")
    found = json.loads(job)
    return f"{found.get('role')}-{found.get('index')}"


@contextmanager
def run_of(folder: Path, example: str, job: str, claim: Path) -> Iterator[ExampleRun]:
    run = ExampleRun(folder, example, job, claim)
    try:
        yield run
    finally:
        run.process.kill()
        run.process.wait()


def starts(run: ExampleRun, replica: str) -> int:
    return run.log(replica).count(f"starts as {replica}")


@pytest.mark.parametrize("killed", ["worker-1", "chief-0"])
def test_a_replica_of_keras_tuner_that_is_killed_goes_on_with_its_trials_and_the_chief_ends_the_job(
    examples: Path, tmp_path: Path, killed: str
) -> None:
    # given
    pytest.importorskip("keras_tuner", reason="requirements/search.txt is not installed")
    with run_of(tmp_path, "keras_tuner", "keras-tuner", examples) as run:
        # when
        run.until("worker-1", "Epoch 2/10")
        run.kill(killed)
        code, output = run.end()
    # then
    assert code == 0, output
    assert f"best of {TRIALS} trials: " in run.log("chief-0")
    times = {name: starts(run, name) for name in ("chief-0", "worker-0", "worker-1")}
    assert times[killed] == 2
    if killed != "chief-0":  # a worker fails too if its chief is killed during its request
        assert sum(times.values()) == 4
    status = run.status()
    assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", sum(times.values()) - 3)
    assert 0 <= status["progress"]["metrics"]["val_accuracy"] <= 1


def test_a_worker_of_optuna_that_is_killed_takes_its_trial_again_and_both_workers_end(
    examples: Path, tmp_path: Path
) -> None:
    # given
    pytest.importorskip("optuna", reason="requirements/search.txt is not installed")
    with run_of(tmp_path, "optuna", "optuna", examples) as run:
        # when
        run.until("worker-1", "worker-1 trial")
        run.kill("worker-1")
        code, output = run.end()
    # then
    assert code == 0, output
    assert (starts(run, "worker-0"), starts(run, "worker-1")) == (1, 2)
    assert all("best: " in run.log(name) for name in ("worker-0", "worker-1"))
    trials = [line for name in ("worker-0", "worker-1") for line in run.log(name).splitlines() if " trial " in line]
    assert len([line for line in trials if line.startswith("worker-")]) >= TRIALS
    assert (run.status()["phase"], run.status()["restarts"]["counted"]) == ("Succeeded", 1)
