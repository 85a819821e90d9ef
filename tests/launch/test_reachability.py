"""Outages of nodes and networks: they are disruptions, and a member that only detects one is not the root cause."""

import pytest
from support.settled_gang import leader, settled
from support.simulated_gang import World

from tfdist.contract import LaunchMemberRange, LeaderSettings, Role
from tfdist_launch.failure_history import FailureHistory
from tfdist_launch.leader import PEER_REPORT_WAIT_SECONDS, ROOT_CAUSE_WAIT_SECONDS, Leader
from tfdist_launch.messages import ExitResult, Heartbeat, Hello, ProcessExited
from tfdist_launch.restart_policy import RestartPolicy
from tfdist_launch.slots import ProcessState


def causes(world: World) -> list[tuple[int, str, bool]]:
    """Return index, reason and `counted` of each root cause."""
    return [(f.index, f.reason, f.counted) for f in leader(world).history.failures if f.root_cause]


@pytest.mark.parametrize("seconds", [9.5, 15, 40, 90])
@pytest.mark.parametrize("lost_after", [9.0, 10.5], ids=["programs first", "launchers first"])
@pytest.mark.parametrize("code", [75, 1], ids=["PeerLost", "another error"])
def test_a_member_whose_node_is_paused_is_a_disruption(seconds: float, lost_after: float, code: int) -> None:
    world = settled(3, backoff_limit=0)
    world.freeze(2, seconds)
    for rank in (0, 1):  # TensorFlow's heartbeats end the programs that wait for it
        world.later(lost_after, lambda rank=rank: world.crash(rank, code))  # type: ignore[misc]
    world.run(seconds + 60)
    assert world.running == [1, 1, 1]
    assert causes(world) == [(2, "Disruption", False)]
    assert leader(world).restart_policy.restarts.counted == 0


@pytest.mark.parametrize("seconds", [9.5, 15, 75])
def test_a_paused_leader_is_the_root_cause_itself_and_not_a_member(seconds: float) -> None:
    world = settled(3, backoff_limit=0)
    world.freeze(0, seconds)
    for rank in (0, 1, 2):
        world.later(9.0, lambda rank=rank: world.crash(rank, 75))  # type: ignore[misc]
    world.run(seconds + 60)
    assert world.running == [1, 1, 1]
    assert causes(world) == [(0, "Disruption", False)]
    assert "did not run for" in leader(world).history.failures[-1].message


@pytest.mark.parametrize("code", [75, 1], ids=["PeerLost", "another error"])
def test_workers_that_restart_alone_are_not_blamed_while_another_is_unreachable(code: int) -> None:
    """Given workers of parameter servers; when one is silent for 6 s and another fails, then no restart is counted."""
    settings = LeaderSettings(member_ranges=[LaunchMemberRange(role=Role.WORKER, index=0, count=3)], backoff_limit=0)
    policy, history = RestartPolicy.of(settings, "uid-1"), FailureHistory("x", lambda: "t")
    lead = Leader(settings, policy, history, independent=frozenset({Role.WORKER}), standby=False, saving_seconds=25.0)
    for rank in range(3):
        lead.member_connected(rank, Hello(job="uid-1", rank=rank, attempt=0, started_at=0.0, highest_round=-1), 1.0)
    for second in range(2, 8):
        for rank in (0, 1):
            lead.handle_message(rank, Heartbeat(alive=True), float(second))
    exited = ProcessExited(round=lead.slots[1].round, outcome=ExitResult(exit_code=code, termination="UNAVAILABLE"))
    lead.handle_message(1, exited, 7.5)
    assert [(f.index, f.reason, f.counted) for f in history.failures] == [(1, "Secondary", False)]


def test_a_short_pause_without_a_failure_is_not_recorded() -> None:
    world = settled(3, backoff_limit=0)
    world.freeze(1, 7)
    world.run(30)
    assert (world.running, causes(world)) == ([0, 0, 0], [])


def test_an_earlier_outage_does_not_explain_a_failure() -> None:
    world = settled(3, backoff_limit=5)
    world.freeze(1, 7)
    world.run(60)
    world.crash(0, 75)
    world.run(60)
    assert causes(world) == [(0, "PeerLost", True)]


def test_the_report_of_the_unreachable_member_itself_decides() -> None:
    world = settled(3, backoff_limit=5)
    world.freeze(2, 8)
    world.later(7, lambda: world.crash(0, 75))
    world.later(8.5, lambda: world.crash(2, 139))
    world.run(60)
    assert causes(world)[0][:2] in {(2, "Crash"), (2, "Disruption")}, "never the one that lost it"


def test_a_network_outage_of_many_members_is_one_incident() -> None:
    world = settled(4, backoff_limit=0)
    for rank in (1, 2, 3):
        world.cut(rank)
    world.later(10, lambda: world.crash(0, 75))
    world.run(90)
    assert world.running == [1] * 4
    assert [cause[1:] for cause in causes(world)] == [("Disruption", False)]


def lost_peer(task: int) -> str:
    """Return the termination message of a process that has lost a peer, with TensorFlow's name of it."""
    return f"UNAVAILABLE: /job:worker/replica:0/task:{task} does not answer"


def reports(world: World, rank: int, code: int, message: str) -> None:
    """Deliver the exit of a process of the first round to the leader."""
    lead = leader(world)
    exited = ProcessExited(round=0, outcome=ExitResult(exit_code=code, termination=message))
    world.carry_out(lead.handle_message(lead.slots[rank].link or 0, exited, world.now))


def test_two_members_that_report_each_other_lost_and_are_both_connected_had_no_network_between_them() -> None:
    world = settled(3, backoff_limit=0)
    reports(world, 1, 75, lost_peer(2))
    world.run(3)
    reports(world, 2, 75, lost_peer(1))
    world.run(30)
    assert causes(world) == [(1, "Disruption", False)]
    failures = leader(world).history.failures
    assert failures[-1].message.endswith("the network between them failed")
    assert [(f.index, f.reason) for f in failures if not f.root_cause] == [(1, "Secondary"), (2, "Secondary")]


def test_a_member_that_loses_the_leaders_process_while_its_launcher_is_connected_to_it_has_a_network_again() -> None:
    world = settled(3, backoff_limit=0)
    reports(world, 0, 75, lost_peer(2))
    world.run(3)
    reports(world, 2, 75, lost_peer(0))
    world.run(30)
    assert causes(world) == [(0, "Disruption", False)]
    message = leader(world).history.failures[-1].message
    assert message.startswith(
        "worker-0 and worker-2 lost the connection to each other, and their launchers are connected"
    )


@pytest.mark.parametrize("code", [1, 137, 139])
def test_a_crash_counts_although_the_peer_that_lost_the_process_reports_seconds_before_it(code: int) -> None:
    world = settled(3, backoff_limit=5)
    reports(world, 1, 75, lost_peer(2))
    world.run(3)
    reports(world, 2, code, "" if code > 128 else lost_peer(1))
    world.run(30)
    assert causes(world) == [(2, "Crash" if code > 128 else "ApplicationError", True)]


@pytest.mark.parametrize("message", [lost_peer(1), "", lost_peer(0)], ids=["no other", "nothing", "another peer"])
def test_a_peer_that_does_not_report_the_loss_leaves_it_with_its_reporter(message: str) -> None:
    world = settled(3, backoff_limit=5)
    reports(world, 1, 75, lost_peer(2))
    if message != lost_peer(1):
        reports(world, 2, 75, message)
    world.run(30)
    assert causes(world) == [(1, "PeerLost", True)]


def test_the_others_are_stopped_as_soon_as_the_lost_peer_has_reported_too() -> None:
    world = settled(3, backoff_limit=0)
    lead = leader(world)
    reports(world, 1, 75, lost_peer(2))
    world.run(PEER_REPORT_WAIT_SECONDS - 1)
    assert lead.slots[0].process is ProcessState.RUNNING
    reports(world, 2, 75, lost_peer(1))
    world.run(ROOT_CAUSE_WAIT_SECONDS + 0.3)
    assert lead.slots[0].process is not ProcessState.RUNNING


def test_a_member_that_exited_with_0_before_its_peers_is_named_in_their_failure() -> None:
    world = settled(3)
    lead = leader(world)
    for rank, code in ((1, 0), (2, 75)):
        ended = ProcessExited(round=0, outcome=ExitResult(exit_code=code, termination="lost a peer" if code else ""))
        world.carry_out(lead.handle_message(lead.slots[rank].link or 0, ended, world.now))
    world.run(30)
    [cause] = [f for f in lead.history.failures if f.root_cause]
    assert cause.message.startswith("lost a peer; worker-1 had exited with 0 before")
