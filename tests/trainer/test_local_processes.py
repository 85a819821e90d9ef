"""Processes of a local run: none of them outlives it, in any case."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.polling import WAIT_SECONDS, wait_for

from tfdist.local.init_process import descendants

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
# a child in a session of its own, which a signal to the process group does not reach
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print("ready", os.getpid(), child.pid, flush=True)
time.sleep(600)
"""
POLITE = """
import os, signal, sys, time
def leave(*_):
    print("saved", flush=True)
    sys.exit(42)
signal.signal(signal.SIGTERM, leave)
print("ready", os.getpid(), flush=True)
time.sleep(600)
"""


class Run:
    """A local run in a process of its own."""

    def __init__(self, folder: Path, *options: str, **spec: Any) -> None:
        manifest = {"apiVersion": "tfdist.dev/v1", "kind": "TFDistJob", "metadata": {"name": "job"}, "spec": spec}
        (folder / "job.yaml").write_text(yaml.safe_dump(manifest))
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tfdist.cli", "run", "--local", *options, "job.yaml"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def log(self, name: str) -> str:
        path = self.folder / ".tfdist" / "job" / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    def until_ready(self, *names: str) -> list[int]:
        """Return the processes below the run once each replica has written that it is ready."""
        wait_for("the replicas to be ready", lambda: all("ready" in self.log(name) for name in names))
        return descendants(self.process.pid)

    def end(self) -> tuple[int, str]:
        """Return exit code and output."""
        output, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, output

    def status(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / ".tfdist" / "job" / "status.json").read_text()))


def runs(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


def all_gone(pids: list[int]) -> None:
    assert len(pids) > 1
    wait_for(f"the end of {pids}", lambda: not any(map(runs, pids)))


@pytest.fixture
def started() -> Iterator[list[Run]]:
    made: list[Run] = []
    yield made
    for run in made:
        if run.process.poll() is None:
            run.process.kill()
            run.process.communicate()


def start(started: list[Run], folder: Path, program: str, *options: str, **spec: Any) -> Run:
    grace = {"template": {"spec": {"terminationGracePeriodSeconds": spec.pop("grace", 30)}}}
    run = Run(folder, *options, **{"command": ["python", "-c", program], "worker": {"replicas": 2}, **grace, **spec})
    started.append(run)
    return run


def test_after_ctrl_c_every_replica_saves_and_no_process_remains(started: list[Run], tmp_path: Path) -> None:
    run = start(started, tmp_path, POLITE)
    pids = run.until_ready("worker-0", "worker-1")
    run.process.send_signal(signal.SIGINT)
    code, output = run.end()
    assert code == 130, output
    assert "stopping worker-0, worker-1: they may save for 30 s; a second Ctrl-C kills them" in output
    assert [run.log(name).splitlines()[-1] for name in ("worker-0", "worker-1")] == ["saved"] * 2
    all_gone(pids)


def test_a_second_ctrl_c_kills_replicas_that_ignore_sigterm(started: list[Run], tmp_path: Path) -> None:
    run = start(started, tmp_path, STUBBORN, grace=600)
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


def test_a_killed_run_leaves_no_process_and_its_replicas_can_save(started: list[Run], tmp_path: Path) -> None:
    run = start(started, tmp_path, POLITE)
    pids = run.until_ready("worker-0", "worker-1")
    run.process.kill()
    all_gone(pids)
    assert run.log("worker-1").splitlines()[-1] == "saved"


def test_a_killed_run_leaves_no_replica_that_ignores_sigterm(started: list[Run], tmp_path: Path) -> None:
    run = start(started, tmp_path, STUBBORN, grace=1)
    pids = run.until_ready("worker-0", "worker-1")
    assert len(pids) == 6, "each replica has an init process and a child"
    run.process.kill()
    all_gone(pids)


def test_a_replica_that_fails_ends_the_run_with_its_exit_code_and_message(started: list[Run], tmp_path: Path) -> None:
    fails = f"while not os.path.exists({str(tmp_path / 'fail')!r}): time.sleep(0.02)\n    sys.exit('no luck')"
    program = f"import os, sys, time\nif '\"index\":1' in os.environ['TF_CONFIG']:\n    {fails}\n{STUBBORN}"
    run = start(started, tmp_path, program, grace=1)
    pids = run.until_ready("worker-0")
    (tmp_path / "fail").touch()
    code, output = run.end()
    assert code == 1
    assert "worker-1 ended with exit code 1: no luck; stopping the others" in output
    assert "worker-1 | no luck" in output
    [failure] = run.status()["failures"]
    assert (failure["role"], failure["index"], failure["exitCode"]) == ("worker", 1, 1)
    assert (failure["reason"], failure["message"]) == ("ApplicationError", "no luck")
    all_gone(pids)


def test_a_killed_init_process_is_a_failure_and_its_descendants_are_killed(started: list[Run], tmp_path: Path) -> None:
    run = start(started, tmp_path, STUBBORN, grace=1)
    pids = run.until_ready("worker-0", "worker-1")
    os.kill(pids[0], signal.SIGKILL)  # a direct child of the run
    code, output = run.end()
    assert code == 137, output
    all_gone(pids)


def test_a_command_that_does_not_exist_is_a_user_error(started: list[Run], tmp_path: Path) -> None:
    run = start(started, tmp_path, "", command=["no-such-program"])
    code, output = run.end()
    assert code == 127
    assert "cannot run no-such-program: No such file or directory" in output
    assert run.status()["failures"][0]["reason"] == "UserError"


def test_parameter_servers_are_stopped_when_the_chief_has_succeeded(started: list[Run], tmp_path: Path) -> None:
    program = f"import os, sys\nif '\"type\":\"chief\"' in os.environ['TF_CONFIG']: sys.exit(0)\n{POLITE}"
    run = start(
        started, tmp_path, program, strategy="ParameterServer", chief={}, worker={"replicas": 1}, ps={"replicas": 1}
    )
    code, output = run.end()
    assert code == 0, output
    counts = run.status()["replicas"]
    assert {role: (each["running"], each["failed"]) for role, each in counts.items()} == {
        "chief": (0, 0),
        "worker": (0, 0),
        "ps": (0, 0),
    }


def test_two_runs_do_not_share_a_state_folder(started: list[Run], tmp_path: Path) -> None:
    first = start(started, tmp_path, POLITE)
    first.until_ready("worker-0")
    second = start(started, tmp_path, POLITE)
    code, output = second.end()
    assert code == 2
    assert "another run uses" in output
    assert first.process.poll() is None


def test_a_gang_restarts_in_place_up_to_the_backoff_limit(started: list[Run], tmp_path: Path) -> None:
    pytest.importorskip("tfdist_launch", reason="the launcher is not part of this environment")
    program = f"import os, sys\nif '\"index\":1' in os.environ['TF_CONFIG']: sys.exit('no luck')\n{POLITE}"
    run = start(started, tmp_path, program, "--in-place", runPolicy={"backoffLimit": 1})
    code, output = run.end()
    assert code == 1, output
    assert run.log("worker-1").splitlines().count("no luck") == 2
    status = run.status()
    assert status["restarts"]["counted"] == 1
    last = status["failures"][-1]
    assert (last["role"], last["index"], last["reason"]) == ("worker", 1, "BackoffLimitExceeded")
