"""Processes of a local run: none of them outlives it, in any case."""

import os
import signal
from pathlib import Path

import pytest
from support.local_runs import POLITE, LocalRuns
from support.polling import wait_for

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
# a child in a session of its own, which a signal to the process group does not reach
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", os.getpid(), child.pid, flush=True)
time.sleep(600)
"""


def runs(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def all_gone(pids: list[int]) -> None:
    assert len(pids) > 1
    wait_for(f"the end of {pids}", lambda: not any(map(runs, pids)))


def test_after_ctrl_c_every_replica_saves_and_no_process_remains(start_run: LocalRuns) -> None:
    run = start_run(POLITE)
    pids = run.until_ready("worker-0", "worker-1")
    run.process.send_signal(signal.SIGINT)
    code, output = run.end()
    assert code == 130, output
    assert "stopping worker-0, worker-1: they may save for 30 s; a second Ctrl-C kills them" in output
    assert [run.log(name).splitlines()[-1] for name in ("worker-0", "worker-1")] == ["saved"] * 2
    all_gone(pids)


def test_a_second_ctrl_c_kills_replicas_that_ignore_sigterm(start_run: LocalRuns) -> None:
    run = start_run(STUBBORN, grace=600)
    pids = run.until_ready("worker-0", "worker-1")
    run.process.send_signal(signal.SIGTERM)
    line = ""
    assert run.process.stdout is not None
    while "stopping" not in line:
        line = run.process.stdout.readline()
        assert line, "it ended without output"
    run.process.send_signal(signal.SIGTERM)
    assert run.end()[0] == 143
    all_gone(pids)
    assert run.status()["phase"] == "Suspended"


def test_a_killed_run_leaves_no_process_and_its_replicas_can_save(start_run: LocalRuns) -> None:
    run = start_run(POLITE)
    pids = run.until_ready("worker-0", "worker-1")
    run.process.kill()
    all_gone(pids)
    assert run.log("worker-1").splitlines()[-1] == "saved"


def test_a_killed_run_leaves_no_replica_that_ignores_sigterm(start_run: LocalRuns) -> None:
    run = start_run(STUBBORN, grace=1)
    pids = run.until_ready("worker-0", "worker-1")
    assert len(pids) == 6, "each replica has an init process and a child"
    run.process.kill()
    all_gone(pids)


def test_a_killed_init_process_is_a_crash_and_its_descendants_are_killed(start_run: LocalRuns) -> None:
    run = start_run(STUBBORN, grace=1, runPolicy={"backoffLimit": 0})
    pids = run.until_ready("worker-0", "worker-1")
    os.kill(pids[0], signal.SIGKILL)  # a direct child of the run
    code, output = run.end()
    assert code == 137, output
    assert run.status()["failures"][-1]["reason"] == "Crash"
    all_gone(pids)


def test_two_runs_do_not_share_a_state_folder(start_run: LocalRuns) -> None:
    first = start_run(POLITE)
    first.until_ready("worker-0")
    second = start_run(POLITE)
    code, output = second.end()
    assert code == 2
    assert "another run uses" in output
    assert first.process.poll() is None


def test_replicas_connect_directly_where_the_shell_has_a_proxy(
    start_run: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    # given
    monkeypatch.setenv("http_proxy", "http://192.0.2.1:3128")
    monkeypatch.setenv("no_proxy", "internal.example")
    # when
    run = start_run("import os; print(os.environ['http_proxy'], os.environ['no_proxy'])")
    # then
    assert run.end()[0] == 0
    words = "http://192.0.2.1:3128 internal.example,127.0.0.1,localhost,::1"
    assert [run.log(name).splitlines()[-1] for name in ("worker-0", "worker-1")] == [words] * 2
