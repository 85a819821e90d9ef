"""Launchers as processes, whose training processes and launchers are killed, stopped, or late."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.launchers import KEY, end, exists
from support.polling import WAIT_SECONDS, wait_for

from tfdist.contract import LAUNCH_KEY_ENV, ExitCode

if TYPE_CHECKING:
    from launch.conftest import Launch


SHOWS_ENVIRONMENT = """
(folder / f"environ-{rank}.new").write_text("\\n".join(f"{k}={v}" for k, v in os.environ.items()))
(folder / f"environ-{rank}.new").rename(folder / f"environ-{rank}")
ready()
wait_for_end()
"""


def test_launchers_with_the_key_of_the_job_train_and_their_program_does_not_get_it(launch: "Launch") -> None:
    """Given pods with the key, when they train, then the program does not have it."""
    launchers = launch(2, script=SHOWS_ENVIRONMENT)
    for rank in (0, 1):
        launchers.program(rank, 0)
        shown = (launchers.folder / f"environ-{rank}").read_text()
        assert '"rank":' in shown
        assert [secret for secret in (LAUNCH_KEY_ENV, KEY) if secret in shown] == []
    end(launchers)


def test_a_command_without_a_gang_does_not_get_the_key(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tfdist_launch", "--", "env"]
    made = subprocess.run(
        command, env={**os.environ, LAUNCH_KEY_ENV: KEY}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "PATH=" in made.stdout
    assert LAUNCH_KEY_ENV not in made.stdout


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_process_is_followed_by_a_round_of_all_members(launch: "Launch", rank: int) -> None:
    launchers = launch(2)
    first = [launchers.program(each, 0) for each in (0, 1)]
    os.kill(first[rank], signal.SIGKILL)
    assert launchers.program(0, 1)
    assert launchers.program(1, 1)
    assert not exists(first[0])
    assert not exists(first[1])
    gang = launchers.gang_when(lambda gang: gang.failures)
    (failure,) = gang.failures
    assert (failure.index, failure.round, failure.exit_code, failure.signal) == (rank, 0, 137, 9)
    assert (failure.reason, failure.counted, failure.root_cause) == ("Crash", True, True)
    assert gang.restarts.counted == 1
    end(launchers)


def test_launchers_that_wait_for_the_first_round_report_no_round(launch: "Launch") -> None:
    launchers = launch(2, late=frozenset({1}))
    gang = launchers.gang_when(lambda gang: gang.waiting_for == ["worker-1: its launcher is not connected"])
    assert gang.round == -1
    launchers.start(1)
    assert launchers.gang_when(lambda gang: not gang.waiting_for).round == 0
    end(launchers)


def test_the_process_of_a_killed_launcher_is_killed_and_its_replacement_joins(launch: "Launch") -> None:
    launchers = launch(3)
    pids = [launchers.program(rank, 0) for rank in range(3)]
    launchers.processes[1].kill()
    waits = launchers.gang_when(lambda gang: gang.waiting_for and not any(m.alive for m in gang.members))
    assert waits.waiting_for == ["worker-1: its launcher is not connected"]
    wait_for("the end of all processes", lambda: not any(map(exists, pids)))
    launchers.start(1)
    assert [launchers.program(rank, 1) for rank in range(3)]
    assert launchers.gang_when(lambda gang: not gang.waiting_for).failures == []
    end(launchers)


def test_a_new_leader_begins_the_next_round(launch: "Launch") -> None:
    launchers = launch(2)
    launchers.program(1, 0)
    launchers.processes[0].kill()
    launchers.processes[0].wait()
    launchers.start(0)
    assert launchers.program(0, 1)
    assert launchers.program(1, 1)
    end(launchers)


def test_a_process_that_ignores_sigterm_is_killed_with_its_children(launch: "Launch") -> None:
    script = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if rank == 1:
    helper = os.fork()
    if helper == 0:
        time.sleep(1000)
    (folder / "helper").write_text(str(helper))
ready()
wait_for_end()
"""
    launchers = launch(2, script=script)
    pid = launchers.program(1, 0)
    helper = int((launchers.folder / "helper").read_text())
    os.kill(launchers.program(0, 0), signal.SIGKILL)
    launchers.program(1, 1)
    assert not exists(pid)
    assert not exists(helper)
    end(launchers)


def test_a_kill_safe_process_gets_sigkill_without_sigterm(launch: "Launch") -> None:
    script = f"""
sys.path[:0] = {sys.path!r}
from tfdist_trainer import heartbeat
heartbeat.attach(os.environ).mark_kill_safe()
signal.signal(signal.SIGTERM, lambda *_: (folder / "sigterm").touch())
ready()
wait_for_end()
"""
    launchers = launch(2, script=script)
    pid = launchers.program(1, 0)
    os.kill(launchers.program(0, 0), signal.SIGKILL)
    launchers.program(1, 1)
    assert not exists(pid)
    assert not (launchers.folder / "sigterm").exists()
    end(launchers)


def test_a_process_that_always_crashes_fails_the_gang_at_its_backoff_limit(launch: "Launch") -> None:
    script = "ready()\nif rank == 1: os.kill(os.getpid(), signal.SIGSEGV)\nwait_for_end()"
    launchers = launch(2, script=script, settings={"backoffLimit": 2})
    assert launchers.wait() == [139, 139], launchers.output()
    for rank in (0, 1):
        message = launchers.termination(rank)
        assert message.reason == "Crash"
        assert message.message.startswith("worker-1 was ended by signal 11; runPolicy.backoffLimit of 2 exceeded")
        assert message.gang_end is not None
        assert (message.gang_end.role, message.gang_end.index, message.gang_end.round) == ("worker", 1, 2)
        assert message.gang_end.reason == "BackoffLimitExceeded"
        assert message.gang_end.restarts.counted == 2
    assert not (launchers.folder / "pid-0-3").exists()


def test_the_same_error_twice_fails_the_gang_before_its_limit(launch: "Launch") -> None:
    script = """
ready()
if rank == 1:
    message = '{"reason": "Bug", "message": "ValueError: wrong"}'
    pathlib.Path(os.environ["TFDIST_TERMINATION_LOG"]).write_text(message)
    sys.exit(70)
wait_for_end()
"""
    launchers = launch(2, script=script, settings={"backoffLimit": 10})
    assert launchers.wait() == [70, 70], launchers.output()
    message = launchers.termination(0)
    assert message.message.startswith("worker-1: ValueError: wrong; two attempts in a row")
    assert message.gang_end is not None
    assert message.gang_end.reason == "RepeatedError"


def test_a_user_error_fails_the_gang_at_once(launch: "Launch") -> None:
    launchers = launch(2, script=f"if rank == 0: sys.exit({ExitCode.CONFIGURATION})\nwait_for_end()")
    assert launchers.wait() == [78, 78], launchers.output()


def test_the_failure_policy_of_the_job_goes_before_the_default_rules(launch: "Launch") -> None:
    rules = [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [3]}}]
    launchers = launch(2, script="if rank == 0: sys.exit(3)\nwait_for_end()", settings={"rules": rules})
    assert launchers.wait() == [3, 3], launchers.output()
    end_of_gang = launchers.termination().gang_end
    assert end_of_gang is not None
    assert end_of_gang.reason == "FailurePolicy"


def test_a_survivor_is_not_the_root_cause_although_it_exits_before_the_failed_peer(launch: "Launch") -> None:
    script = """
ready()
if number == 0 and rank == 1:
    while not (folder / "lost").exists():
        time.sleep(0.001)
    time.sleep(0.1)
    os._exit(1)
if number == 0 and rank == 0:
    while not (folder / "pid-1-0").exists():
        time.sleep(0.001)
    (folder / "lost").touch()
    os._exit(75)
wait_for_end()
"""
    launchers = launch(2, script=script, settings={"backoffLimit": 1})
    assert launchers.program(1, 1)
    gang = launchers.gang_when(lambda gang: gang.failures)
    causes = [(f.index, f.exit_code, f.reason, f.counted) for f in gang.failures if f.root_cause]
    assert causes == [(1, 1, "ApplicationError", True)]
    end(launchers)


def test_sigterm_has_all_processes_save_and_wait_for_the_replacement(launch: "Launch") -> None:
    script = """
def save(*_):
    (folder / f"saved-{rank}-{number}").touch()
    os._exit(42)
signal.signal(signal.SIGTERM, save)
ready()
wait_for_end()
"""
    launchers = launch(2, script=script)
    launchers.program(0, 0)
    launchers.program(1, 0)
    launchers.processes[1].terminate()
    assert launchers.exit_code(launchers.processes[1]) == ExitCode.PREEMPTED
    gang = launchers.gang_when(lambda gang: gang.waiting_for)
    assert (gang.restarts.counted, gang.restarts.uncounted) == (0, 0)
    for rank in (0, 1):
        wait_for(f"rank {rank} to save", (launchers.folder / f"saved-{rank}-0").exists, context=launchers.output)
    launchers.start(1, attempt=1)
    assert launchers.program(0, 1)
    end(launchers)


def test_a_launcher_of_an_earlier_attempt_is_rejected(launch: "Launch") -> None:
    launchers = launch(2)
    launchers.program(1, 0)
    launchers.start(1, attempt=1)
    assert launchers.exit_code(launchers.past[0]) == ExitCode.PEER_LOST
    launchers.program(1, 1)
    old, new = launchers.past[0], launchers.processes[1]
    launchers.start(1, attempt=0)
    assert launchers.exit_code(launchers.processes[1]) == ExitCode.PEER_LOST
    assert old.poll() is not None
    launchers.processes[1] = new
    assert launchers.gang_when(lambda gang: all(m.alive for m in gang.members))
    end(launchers)


@pytest.mark.parametrize("requested_before", [True, False])
def test_a_failure_shortly_before_success_is_still_reported(launch: "Launch", requested_before: bool) -> None:
    script = "ready()\nif number == 0: wait_for_end()"
    launchers = launch(2, script=script)
    launchers.program(0, 0)
    assert not requested_before or launchers.gang_when(lambda gang: not gang.failures)
    os.kill(launchers.program(1, 0), signal.SIGKILL)
    wait_for("the next round", (launchers.folder / "pid-1-1").exists, context=launchers.output)
    (failure,) = launchers.gang_when(lambda gang: gang.failures).failures
    assert (failure.index, failure.signal) == (1, signal.SIGKILL)
    assert launchers.wait() == [0, 0]


def test_two_processes_that_fail_at_once_are_one_restart(launch: "Launch") -> None:
    script = "ready()\nif number == 0: os.kill(os.getpid(), 9)\nwait_for_end()"
    launchers = launch(2, script=script)
    assert [launchers.program(rank, 1) for rank in (0, 1)]
    gang = launchers.gang_when(lambda gang: gang.failures)
    assert gang.restarts.counted == sum(f.root_cause for f in gang.failures)
    end(launchers)


def test_any_command_can_be_launched(launch: "Launch") -> None:
    ready = "echo $$ > $FOLDER/new-$RANK; mv $FOLDER/new-$RANK $FOLDER/pid-$RANK-$TFDIST_ROUND"
    command = f"{ready}; while [ ! -e $FOLDER/end ]; do sleep 0.1; done"
    launchers = launch(2, command=("--", "sh", "-c", command))
    os.kill(launchers.program(1, 0), signal.SIGKILL)
    assert launchers.program(1, 1)
    end(launchers)


def test_a_command_that_does_not_exist_is_a_user_error(launch: "Launch") -> None:
    launchers = launch(1, command=("--", "/does/not/exist"))
    assert launchers.wait() == [127]
    assert "cannot run '/does/not/exist'" in launchers.output()


def test_without_a_gang_the_command_replaces_the_launcher() -> None:
    environ = {key: value for key, value in os.environ.items() if key != "TFDIST_JOB"}
    command = [sys.executable, "-m", "tfdist_launch", "--", "sh", "-c", "echo $$; exit 3"]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    output, _ = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, output) == (3, f"{process.pid}\n")
