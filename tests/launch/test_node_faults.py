"""A member whose node is at fault leaves it, and its replacement on another node joins the others in their pods."""

from typing import TYPE_CHECKING, Any

import pytest
from support.launchers import end
from support.settled_gang import leader, settled

from tfdist.contract import ExitCode, LaunchMemberRange, LeaderSettings, Role
from tfdist_launch.failure_history import FailureHistory
from tfdist_launch.leader import Leader
from tfdist_launch.messages import ExitResult, GangFailed, Hello, ProcessExited
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.slots import Send

if TYPE_CHECKING:
    from launch.conftest import Launch

DEVICE_MISSING = int(ExitCode.DEVICE_MISSING)
MISSING = '{"reason": "DeviceMissing", "message": "TensorFlow sees none of the 2 GPUs of this replica"}'
FAULT = f"""
if number == 0 and rank == 1:
    pathlib.Path(os.environ["TFDIST_TERMINATION_LOG"]).write_text({MISSING!r})
    sys.exit({DEVICE_MISSING})
ready(); wait_for_end()
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_member_whose_device_is_missing_leaves_and_all_train_when_its_replacement_joins(rank: int) -> None:
    world = settled(3)
    launchers = [world.at(each) for each in range(3)]
    world.crash(rank, DEVICE_MISSING)
    world.run(60)
    codes = [node.exit_code for node in launchers if node is not None]
    assert codes == [DEVICE_MISSING if each == rank else None for each in range(3)]
    assert len(set(world.running)) == 1
    assert (world.running[0] or 0) >= 1
    assert leader(world).restart_policy.restarts.counted == 0, "the controller counts the pod"
    assert leader(world).history.failures == [], "the controller records the pod"


def test_no_round_starts_between_the_exit_of_the_member_and_its_replacement() -> None:
    world = settled(2)
    lead, now = leader(world), world.now
    link = lead.slots[1].link or 0
    lead.handle_message(link, ProcessExited(round=0, outcome=ExitResult(exit_code=DEVICE_MISSING)), now)
    lead.slots[0].process = lead.slots[0].process.NONE
    (leave,) = lead.tick(now)
    assert leave == Send(link, GangFailed(exit_code=DEVICE_MISSING, termination=""))
    assert lead.tick(now + 100) == []


def test_a_worker_that_restarts_alone_leaves_its_node_too() -> None:
    members = [LaunchMemberRange(role=role, index=0, count=1) for role in (Role.CHIEF, Role.WORKER)]
    settings = LeaderSettings(member_ranges=members)
    lead = Leader(
        settings,
        RestartPolicy.of(settings, "uid-1"),
        FailureHistory("x", lambda: "t"),
        independent=frozenset({Role.WORKER}),
        standby=False,
        saving_seconds=1.0,
    )
    for rank in (0, 1):
        lead.member_connected(rank + 1, Hello(job="uid-1", rank=rank, attempt=0, started_at=1, highest_round=-1), 0.0)
    fault = ProcessExited(round=0, outcome=ExitResult(exit_code=DEVICE_MISSING, termination=MISSING))
    effects = lead.handle_message(2, fault, 1.0)
    assert effects == [Send(2, GangFailed(exit_code=DEVICE_MISSING, termination=MISSING))]
    assert lead.slots[0].active, "the chief continues"


def test_the_launcher_of_a_missing_device_ends_with_71_and_the_message_of_its_program(launch: "Launch") -> None:
    launchers = launch(2, script=FAULT)
    assert launchers.exit_code(launchers.processes[1]) == DEVICE_MISSING
    message = launchers.termination(1)
    assert (message.reason, message.gang_end) == ("DeviceMissing", None)
    assert message.message == "TensorFlow sees none of the 2 GPUs of this replica"
    assert launchers.processes[0].poll() is None, "the other one waits in its pod"
    launchers.start(1)
    assert [launchers.program(rank, 1) for rank in (0, 1)]
    end(launchers)


@pytest.mark.parametrize(
    ("rule", "code", "leaves"),
    [
        pytest.param({"action": "Restart", "onExitCodes": {"operator": "In", "values": [71]}}, 71, False, id="stay"),
        pytest.param({"action": "AvoidNode", "onMessagePattern": "CUDA_ERROR_ECC"}, 1, True, id="leave"),
    ],
)
def test_a_rule_of_the_job_decides_whether_a_member_leaves(
    launch: "Launch", rule: dict[str, Any], code: int, leaves: bool
) -> None:
    message = '{"reason": "Bug", "message": "CUDA_ERROR_ECC_UNCORRECTABLE"}'
    script = FAULT.replace(repr(MISSING), repr(message)).replace("exit(71)", f"exit({code})")
    launchers = launch(2, script=script, settings={"rules": [rule]})
    if leaves:
        assert launchers.exit_code(launchers.processes[1]) == code
        launchers.start(1)
    assert [launchers.program(rank, 1) for rank in (0, 1)], "the same launcher, or its replacement"
    assert launchers.gang_when(bool).restarts.counted == (0 if leaves else 1)
    end(launchers)
