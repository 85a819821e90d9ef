"""Two workers that train, each with the program of the next round in reserve: it goes on where the other was killed."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.launchers import (
    EXAMPLES,
    Launchers,
    end,
    program_of,
    programs_of,
    tf_environ,
    training_job,
    trains,
    wait_for,
)

from tfdist_launch.app import RESERVE_SECONDS
from tfdist_trainer.checkpoint import FinalRecord, read_record

if TYPE_CHECKING:
    from launch.conftest import Launch

EPOCHS = 600
BOTH = frozenset({0, 1})


@pytest.fixture
def training(tmp_path: Path, launch: "Launch") -> Launchers:
    """Two workers with programs in reserve, which save a checkpoint every 100 steps."""
    return two_workers(tmp_path, launch, BOTH)


def two_workers(folder: Path, launch: "Launch", standby: frozenset[int]) -> Launchers:
    job = training_job(folder, epochs=EPOCHS)
    command = ("--", "python", "-m", "tfdist_trainer")
    return launch(2, command=command, job=job, environ_of=tf_environ(2), standby=standby)


def is_ready(training: Launchers, number: int) -> None:
    """Return when both have a program in reserve for a round."""
    wait_for(lambda: training.output().count(f" ready standby={number}") == 2, training.output)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.mark.trainer
def test_the_programs_in_reserve_go_on_and_use_every_example_once(training: Launchers, tmp_path: Path) -> None:
    for number, seat in enumerate([1, 0]):
        is_ready(training, number + 1)
        kill(program_of(training, seat))
        trains(training, number + 1)
        assert training.output().count(f"round number={number + 1} standby=True") == 2
    gang = training.gang_when(lambda gang: len([f for f in gang.failures if f.root_cause]) == 2)
    assert [(f.index, f.exit_code) for f in gang.failures if f.root_cause] == [(1, 137), (0, 137)]
    assert training.wait() == [0, 0], training.output()
    final = FinalRecord.model_validate_json((tmp_path / "checkpoints" / "final.json").read_bytes())
    record = read_record(Path(final.path))
    assert record.position.examples == EPOCHS * EXAMPLES, "an example was repeated or skipped"
    assert (record.writer.attempt, record.writer.round) == (0, 2)


@pytest.mark.trainer
def test_a_program_that_is_killed_with_the_one_in_reserve_is_started_anew(training: Launchers) -> None:
    is_ready(training, 1)
    for pid in programs_of(training, 1):
        kill(pid)
    trains(training, 1)
    gang = training.gang_when(lambda gang: gang.failures)
    assert [(f.index, f.reason) for f in gang.failures if f.root_cause] == [(1, "Crash")]
    assert "standby=True" not in training.output()


@pytest.mark.trainer
def test_one_in_reserve_that_dies_costs_nothing_but_itself(training: Launchers) -> None:
    is_ready(training, 1)
    kill(programs_of(training, 0)[1])
    wait_for(lambda: "standby-lost round=1" in training.output(), training.output)
    kill(program_of(training, 0))
    trains(training, 1)
    gang = training.gang_when(lambda gang: gang.failures)
    assert [(f.index, f.reason) for f in gang.failures if f.root_cause] == [(0, "Crash")]
    is_ready(training, 2)


@pytest.mark.trainer
def test_a_replica_that_comes_anew_is_joined_by_programs_that_start_anew(training: Launchers) -> None:
    is_ready(training, 1)
    training.processes[1].kill()
    training.start(1, attempt=1)
    trains(training, 1)
    assert "standby=True" not in training.output()
    is_ready(training, 2)


@pytest.mark.trainer
@pytest.mark.parametrize("seat", BOTH)
def test_members_that_were_told_differently_restart_together_as_ever(
    tmp_path: Path, launch: "Launch", seat: int
) -> None:
    training = two_workers(tmp_path, launch, frozenset({seat}))
    for number in (1, 2):
        trains(training, number - 1)
        kill(program_of(training, 1))
        trains(training, number)
    assert "standby=True" not in training.output()


def test_a_program_that_would_not_wait_is_never_in_reserve(tmp_path: Path, launch: "Launch") -> None:
    script = f"""
from tfdist.contract import Phase, Role
from tfdist.contract_reports import CheckpointReport, ProgressReport
from tfdist_trainer import heartbeat
saved = CheckpointReport(step=1, path="/none", time="2030-01-02T03:04:05Z")
report = ProgressReport(role=Role.WORKER, index=seat, attempt=0, phase=Phase.TRAINING, step=2, last_checkpoint=saved)
heartbeat.attach(os.environ).tell(report)
(folder / f"started-{{seat}}-{{os.getpid()}}").touch()
time.sleep({3 * RESERVE_SECONDS})  # by then one would have been asked for
ready()
wait_for_end()
"""
    launchers = launch(2, script=script, command=("--", "python", str(tmp_path / "program.py")), standby=BOTH)
    launchers.program(0, 0)
    assert len(list(launchers.folder.glob("started-0-*"))) == 1
    assert "no-effect field=runPolicy.standby" in launchers.output()
    end(launchers)
