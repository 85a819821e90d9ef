"""The history of a job in its status, and the commands that show it, with a real API server and controller."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from support.api import Api, Json
from support.command_user import CommandUser
from support.polling import wait_for

pytestmark = pytest.mark.integration

RESOURCES: Json = {"requests": {"cpu": "500m"}}


def status(api: Api, namespace: str) -> Json:
    found: Json = api.job(namespace, "fashion").get("status", {})
    return found


def await_phase(api: Api, namespace: str, phase: str) -> None:
    wait_for(f"phase {phase}", lambda: status(api, namespace).get("phase") == phase)


@pytest.mark.usefixtures("controller")
def test_pods_that_ran_are_in_the_usage_and_a_failure_in_the_attempts(
    api: Api, namespace: str, user: CommandUser, capsys: pytest.CaptureFixture[str]
) -> None:
    # given
    user.submit(resources=RESOURCES)
    await_phase(api, namespace, "Running")
    assert status(api, namespace)["usage"]["cpus"] == 1.0
    begun = datetime.now(UTC)
    wait_for("a second of use", lambda: datetime.now(UTC) - begun > timedelta(seconds=2))
    # when a pod fails, and its successor runs
    api.end_container(namespace, "fashion-worker-1", 137)
    wait_for("the next attempt", lambda: status(api, namespace)["attempt"] == 1)
    await_phase(api, namespace, "Running")
    # then
    first, second = status(api, namespace)["attempts"]
    assert (first["attempt"], first["reason"], first["rootCause"]) == (0, "Crash", "worker-1")
    assert first["node"]
    assert first["secondsToRecover"] >= 0
    assert (second["attempt"], "endedAt" in second) == (1, False)
    # when the job has ended
    for replica in ("worker-0-r1", "worker-1-r1"):
        api.end_container(namespace, f"fashion-{replica}", 0)
    await_phase(api, namespace, "Succeeded")
    wait_for("the end of the last pod", lambda: status(api, namespace)["usage"]["cpus"] == 0.0)
    assert status(api, namespace)["usage"]["cpuSeconds"] > 0
    # then the commands show it
    capsys.readouterr()
    assert user.run("cost", "fashion", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    seconds = status(api, namespace)["usage"]["cpuSeconds"]
    assert found["total"]["cpuHours"] == pytest.approx(seconds / 3600, abs=1e-6)
    assert user.run("describe", "fashion") == 0
    shown = capsys.readouterr().out
    assert "Crash: worker-1 on " in shown
    assert "CPU Hours:" in shown
    assert user.run("top") == 0
    assert "No jobs run in" in capsys.readouterr().err
    assert user.run("top", "fashion") == 0
    assert "Succeeded" in capsys.readouterr().out
    assert user.run("cost", "--since", "0s") == 0
    assert "No jobs found" in capsys.readouterr().err
    assert user.run("top", "--watch") == 2
    assert "--watch redraws a terminal" in capsys.readouterr().err
    assert user.run("top", "fashio") == 2
    assert 'did you mean "fashion"?' in capsys.readouterr().err


@pytest.fixture
def watching(user: CommandUser) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`tfdist top --watch` on a terminal of 100 columns, and what reads that."""
    terminal, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-m", "tfdist.cli", "top", "--watch", "--kubeconfig", str(user.kubeconfig)]
    environment = {**os.environ, "TERM": "xterm-256color"}
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment)
    os.close(inner)
    yield process, terminal
    process.kill()
    process.wait()
    os.close(terminal)


def test_a_watched_table_shows_new_jobs_and_not_deleted_ones_until_ctrl_c(
    user: CommandUser, watching: tuple[subprocess.Popen[bytes], int]
) -> None:
    process, terminal = watching
    shown = bytearray()

    def shows(text: bytes) -> bool:
        shown.extend(os.read(terminal, 65536))
        return text in shown

    wait_for("an empty table", lambda: shows(b"no jobs run"))
    user.submit("fashion")
    wait_for("the job", lambda: shows(b"fashion"))
    user.client.jobs.delete("fashion")
    shown.clear()
    wait_for("an empty table", lambda: shows(b"no jobs run"))
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert b"Traceback" not in shown
