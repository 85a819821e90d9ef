"""The lock serialises invocations, and the end of its holder releases it, even by SIGKILL."""

import subprocess
import sys
from pathlib import Path

import pytest

from tfdist_cluster import lock, paths

HOLD = """
import sys, time
from pathlib import Path
from tfdist_cluster import lock
with lock.exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def _holder(path: Path, seconds: float) -> "subprocess.Popen[str]":
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True,
        env={"PYTHONPATH": str(paths.CLUSTER)},
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_a_second_invocation_waits_and_reports_the_process_id_of_the_holder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with _holder(tmp_path / "lock", 0.3) as child, lock.exclusive(tmp_path / "lock"):
        assert child.wait() == 0
    assert f"another invocation (process {child.pid})" in capsys.readouterr().err


def test_the_lock_of_a_killed_holder_is_released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with _holder(tmp_path / "lock", 1000) as child:
        child.kill()
        child.wait()
    with lock.exclusive(tmp_path / "lock"):
        pass
    assert capsys.readouterr().err == ""


def test_a_free_lock_is_acquired_at_once_and_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with lock.exclusive(tmp_path / "folder" / "lock"):
            pass
    assert capsys.readouterr().err == ""
