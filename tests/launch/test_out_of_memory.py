"""OOM kills of any process of the container, as counted by its cgroup."""

import random as pseudorandom
from pathlib import Path

import pytest
from support.simulated_gang import World

from tfdist_launch.cgroup import CgroupMemory
from tfdist_launch.messages import ExitResult, ProcessExited

V2 = {"memory.events": "low 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n", "memory.max": "536870912\n"}
V1 = {
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    "memory/memory.limit_in_bytes": "536870912\n",
}


@pytest.mark.parametrize("files", [V2, V1], ids=["cgroup v2", "cgroup v1"])
def test_the_counters_of_the_cgroup_are_read(files: dict[str, str], tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert (CgroupMemory(tmp_path).oom_kills(), CgroupMemory(tmp_path).limit_text()) == (3, " (limit 512 MiB)")


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", "-1", "none"])
def test_without_a_limit_there_is_no_text(text: str, tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(text)
    (tmp_path / "memory.events").write_text("oom_kill many")
    assert (CgroupMemory(tmp_path).oom_kills(), CgroupMemory(tmp_path).limit_text()) == (0, "")


TEXT = "the OOM killer killed a process (limit 512 MiB): raise resources.limits.memory"


@pytest.mark.parametrize(
    ("outcome", "reason", "message"),
    [
        pytest.param(ExitResult(exit_code=137, signal=9, out_of_memory=TEXT), "OutOfMemory", TEXT, id="the program"),
        pytest.param(
            ExitResult(exit_code=1, termination="a loader died", out_of_memory=TEXT),
            "ApplicationError",
            f"a loader died; {TEXT}",
            id="a process of it",
        ),
        pytest.param(ExitResult(exit_code=137, signal=9), "Crash", "worker-1 was ended by signal 9", id="neither"),
    ],
)
def test_a_failure_after_an_oom_kill_has_its_reason(outcome: ExitResult, reason: str, message: str) -> None:
    world = World(2, pseudorandom.Random(1))  # noqa: S311  no secret
    world.run(60)
    node = world.at(0)
    assert node is not None
    lead = node.leader
    assert lead is not None
    world.carry_out(lead.handle_message(lead.slots[1].link or 0, ProcessExited(round=0, outcome=outcome), world.now))
    world.run(30)
    [cause] = [f for f in lead.history.failures if f.root_cause]
    assert (cause.reason, cause.message) == (reason, message)
