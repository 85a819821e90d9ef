"""Two workers that train, each with a standby process, which continues after a kill."""

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.launchers import (
    Launchers,
    end,
    examples_after,
    program_of,
    programs_of,
    tf_environ,
    training_job,
    trains,
)
from support.polling import wait_for

from tfdist.contract import ExitCode
from tfdist_launch.launcher import STANDBY_DELAY_SECONDS
from tfdist_trainer.checkpoint import read_record

if TYPE_CHECKING:
    from launch.conftest import Launch

BOTH = frozenset({0, 1})


@pytest.fixture
def training(tmp_path: Path, launch: "Launch") -> Launchers:
    """Two workers with standby processes, which save a checkpoint every 100 steps."""
    return two_workers(tmp_path, launch, BOTH)


def two_workers(folder: Path, launch: "Launch", standby: frozenset[int]) -> Launchers:
    job = training_job(folder, epochs=100_000)
    command = ("--", "python", "-m", "tfdist_trainer")
    return launch(2, command=command, job=job, environ_of=tf_environ(2), standby=standby)


def is_ready(training: Launchers, number: int) -> None:
    """Return when both have a standby process for a round."""
    line = f" ready standby={number}"
    wait_for("both standby processes", lambda: training.output().count(line) == 2, context=training.output)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


@pytest.mark.trainer
def test_standby_processes_continue_and_use_every_example_once(training: Launchers) -> None:
    for number, rank in enumerate([1, 0]):
        is_ready(training, number + 1)
        kill(program_of(training, rank))
        trains(training, number + 1)
        assert training.output().count(f"round number={number + 1} standby=True") == 2
    gang = training.gang_when(lambda gang: len([f for f in gang.failures if f.root_cause]) == 2)
    assert [(f.index, f.exit_code) for f in gang.failures if f.root_cause] == [(1, 137), (0, 137)]
    for process in training.processes.values():
        process.terminate()
    assert training.wait() == [ExitCode.PREEMPTED] * 2, training.output()
    saved = training.termination().last_checkpoint
    assert saved is not None
    record = read_record(Path(saved.path))
    assert record.cursor.examples == examples_after(saved.step), "an example was repeated or skipped"
    assert (record.writer.attempt, record.writer.round) == (0, 2)


@pytest.mark.long
@pytest.mark.trainer
def test_a_process_killed_with_its_standby_process_starts_cold(training: Launchers) -> None:
    is_ready(training, 1)
    for pid in programs_of(training, 1):
        kill(pid)
    trains(training, 1)
    gang = training.gang_when(lambda gang: gang.failures)
    assert [(f.index, f.reason) for f in gang.failures if f.root_cause] == [(1, "Crash")]
    assert "standby=True" not in training.output()


@pytest.mark.long
@pytest.mark.trainer
def test_the_loss_of_a_standby_process_ends_no_round(training: Launchers) -> None:
    is_ready(training, 1)
    kill(programs_of(training, 0)[1])
    wait_for("the loss to be seen", lambda: "standby-lost round=1" in training.output(), context=training.output)
    kill(program_of(training, 0))
    trains(training, 1)
    gang = training.gang_when(lambda gang: gang.failures)
    assert [(f.index, f.reason) for f in gang.failures if f.root_cause] == [(0, "Crash")]
    is_ready(training, 2)


@pytest.mark.long
@pytest.mark.trainer
def test_all_start_cold_with_a_replaced_replica(training: Launchers) -> None:
    is_ready(training, 1)
    training.processes[1].kill()
    training.start(1, attempt=1)
    trains(training, 1)
    assert "standby=True" not in training.output()
    is_ready(training, 2)


@pytest.mark.long
@pytest.mark.trainer
@pytest.mark.parametrize("rank", BOTH)
def test_members_with_different_standby_settings_restart_together_cold(
    tmp_path: Path, launch: "Launch", rank: int
) -> None:
    training = two_workers(tmp_path, launch, frozenset({rank}))
    for number in (1, 2):
        trains(training, number - 1)
        kill(program_of(training, 1))
        trains(training, number)
    assert "standby=True" not in training.output()


@pytest.mark.long
def test_a_script_has_no_standby_process(tmp_path: Path, launch: "Launch") -> None:
    script = f"""
from tfdist.contract import Phase, Role
from tfdist.contract_reports import CheckpointReport, ProgressReport
from tfdist_trainer import heartbeat
saved = CheckpointReport(step=1, path="/none", time="2030-01-02T03:04:05Z")
report = ProgressReport(role=Role.WORKER, index=rank, attempt=0, phase=Phase.TRAINING, step=2, last_checkpoint=saved)
heartbeat.attach(os.environ).write(report)
(folder / f"started-{{rank}}-{{os.getpid()}}").touch()
time.sleep({3 * STANDBY_DELAY_SECONDS})  # by then a standby process would have been started
ready()
wait_for_end()
"""
    launchers = launch(2, script=script, command=("--", "python", str(tmp_path / "program.py")), standby=BOTH)
    launchers.program(0, 0)
    assert len(list(launchers.folder.glob("started-0-*"))) == 1
    assert "no-effect field=runPolicy.standby" in launchers.output()
    end(launchers)
