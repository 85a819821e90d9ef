"""Processes are identified by id and start time, so that no other process with a reused id is stopped."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tfdist_cluster import process
from tfdist_cluster.errors import ClusterError


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield child
        child.kill()


def test_a_recorded_process_is_identified(tmp_path: Path, sleeper: "subprocess.Popen[bytes]") -> None:
    identity = process.record(tmp_path / "pid", sleeper.pid)
    assert process.read(tmp_path / "pid") == identity
    assert identity.alive()


def test_an_id_that_now_belongs_to_another_process_is_not_the_recorded_one(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    (tmp_path / "pid").write_text(f"{sleeper.pid} {process.boot_id()}:1\n")
    assert process.read(tmp_path / "pid") is None
    assert not process.stop(tmp_path / "pid")
    assert sleeper.poll() is None  # no signal was sent to it


def test_a_pid_file_of_an_earlier_boot_identifies_no_process(
    tmp_path: Path, sleeper: "subprocess.Popen[bytes]"
) -> None:
    started = process.start_time(sleeper.pid)
    assert started is not None
    ticks = started.rpartition(":")[2]
    (tmp_path / "pid").write_text(f"{sleeper.pid} 00000000-0000-0000-0000-000000000000:{ticks}\n")
    assert process.read(tmp_path / "pid") is None


@pytest.mark.parametrize("text", ["", "garbage", "12", "x y", "1 2 3"], ids=repr)
def test_a_damaged_pid_file_identifies_no_process(tmp_path: Path, text: str) -> None:
    (tmp_path / "pid").write_text(text)
    assert process.read(tmp_path / "pid") is None


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet reaped
        assert process.start_time(child.pid) is None


def test_a_process_name_may_have_spaces_and_parentheses(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "1000"]) as child:
        expected = process.start_time(child.pid)
        assert expected is not None
        assert expected.startswith(process.boot_id())
        assert int(expected.rpartition(":")[2]) > 1
        child.kill()


def test_stop_ends_a_started_server_and_removes_its_pid_file(tmp_path: Path) -> None:
    identity = process.start(["sleep", "1000"], pid_file=tmp_path / "pid", log=tmp_path / "log")
    assert process.stop(tmp_path / "pid")
    assert not identity.alive()
    assert not (tmp_path / "pid").exists()
    assert not process.stop(tmp_path / "pid")


def test_stop_ends_a_server_that_ignores_sigterm(tmp_path: Path) -> None:
    ignore = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);print('deaf', flush=True); time.sleep(1000)"
    )
    identity = process.start([sys.executable, "-c", ignore], pid_file=tmp_path / "pid", log=tmp_path / "log")
    while "deaf" not in (tmp_path / "log").read_text():
        assert identity.alive()
    assert process.stop(tmp_path / "pid", grace_seconds=0.2)
    assert not identity.alive()


def test_a_signal_to_a_process_that_has_ended_is_not_sent() -> None:
    with subprocess.Popen(["true"]) as child:
        identity = process.Identity(child.pid, "never")
    identity.signal(signal.SIGTERM)


def test_a_process_that_ended_cannot_be_recorded(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    with pytest.raises(ClusterError, match="ended before it could be recorded"):
        process.record(tmp_path / "pid", child.pid)
