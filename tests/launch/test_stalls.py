"""Training processes that are stopped (SIGSTOP): they are detected, named and restarted."""

import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest
from support.launchers import end

if TYPE_CHECKING:
    from launch.conftest import Launch


def test_a_stopped_process_is_detected_named_and_restarted(launch: "Launch") -> None:
    script = f"""
sys.path[:0] = {sys.path!r}
import tfdist_trainer
step = 0
while not (folder / "end").exists():
    step += 1
    tfdist_trainer.report(step=step)
    time.sleep(0.05)
    if step == 5:
        ready()
    other = folder / f"step-{{1 - rank}}-{{number}}"
    (folder / f"step-{{rank}}-{{number}}").write_text(str(step))
    while not (folder / "end").exists() and int((other.exists() and other.read_text()) or 0) + 3 < step:
        time.sleep(0.02)
"""
    launchers = launch(2, script=script, settings={"progressDeadlineSeconds": 10}, job={"strategy": "Custom"})
    launchers.program(0, 0)
    os.kill(launchers.program(1, 0), signal.SIGSTOP)
    assert launchers.program(1, 1)
    (failure,) = launchers.gang_when(lambda gang: gang.failures).failures
    assert (failure.reason, failure.index, failure.counted) == ("Stalled", 1, True)
    assert "worker-1 is behind" in failure.message
    assert "time.sleep" not in failure.message
    assert "program.py" in (failure.stacks or ""), "where worker-0 waits"
    assert "does not answer" in (failure.stacks or ""), "as worker-1 was stopped"
    assert "program.py" in launchers.get("/v1/stacks", 1)
    end(launchers)


def test_a_gang_whose_members_are_at_the_same_step_restarts_and_none_is_named(launch: "Launch") -> None:
    script = f"""
sys.path[:0] = {sys.path!r}
import tfdist_trainer
if number == 0:
    (folder / f"starts-{{rank}}").touch()
    while not (folder / f"starts-{{1 - rank}}").exists():
        time.sleep(0.02)
    tfdist_trainer.report(step=1)
ready()
while not (folder / "end").exists():
    time.sleep(0.02)
"""
    launchers = launch(2, script=script, settings={"progressDeadlineSeconds": 10}, job={"strategy": "Custom"})
    assert launchers.program(1, 1)
    (failure,) = launchers.gang_when(lambda gang: gang.failures).failures
    assert failure.reason == "Stalled"
    assert failure.message.endswith("; no replica is known to be behind, all that report are at step 1")
    assert (failure.stacks or "").count("program.py") >= 2, "where both wait"
    end(launchers)


@pytest.mark.long
def test_a_stopped_process_that_its_peers_lost_first_is_named(launch: "Launch") -> None:
    script = f"""
sys.path[:0] = {sys.path!r}
import tfdist_trainer
tfdist_trainer.report(step=1)
ready()
while not (folder / "end").exists():
    time.sleep(0.02)
    if number == 0 and rank == 0 and (folder / "lost").exists():
        sys.exit(75)
"""
    launchers = launch(2, script=script, job={"strategy": "Custom"})
    launchers.program(0, 0)
    launchers.gang_when(lambda gang: all(m.alive for m in gang.members))
    os.kill(launchers.program(1, 0), signal.SIGSTOP)
    launchers.gang_when(lambda gang: [m.alive for m in gang.members] == [True, False])
    (launchers.folder / "lost").touch()
    assert launchers.program(1, 1)
    failures = launchers.gang_when(lambda gang: gang.failures).failures
    (cause,) = [failure for failure in failures if failure.root_cause]
    assert (cause.reason, cause.index, cause.counted) == ("Stalled", 1, True)
    assert "the training process of worker-1 sends no heartbeat" in cause.message
    assert [(f.reason, f.index) for f in failures if not f.root_cause] == [("Secondary", 0)]
    end(launchers)
