"""The rendezvous over a simulated network: delay, loss, outages, and crashes of any launcher or process at any time.

Two invariants: processes of two rounds never run at the same time; and when the faults end, either one round of all
members runs, or the gang has come to a clean end.
"""

from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.settled_gang import leader, settled
from support.simulated_gang import JOB, SAVING_SECONDS, World
from support.simulated_nodes import Node

from tfdist_launch.leader import ROOT_CAUSE_WAIT_SECONDS
from tfdist_launch.member import FENCING_SECONDS, STOP_GRACE_SECONDS, ConnectToLeader, MemberStateMachine
from tfdist_launch.messages import ExitResult, Hello, ProcessExited, ProcessStopped, StartRound, StopRound
from tfdist_launch.slots import GangPhase, Send

Faults = list[tuple[float, tuple[str, int, float]]]
FAULT = st.one_of(
    st.tuples(st.just("crash"), st.integers(0, 3), st.sampled_from([1, 71, 75, 137])),
    st.tuples(st.just("kill"), st.integers(0, 3), st.floats(0, 20)),
    st.tuples(st.just("cut"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("terminate"), st.integers(0, 3), st.floats(0, 20)),
    st.tuples(st.just("replace"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("split"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("succeed"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("freeze"), st.integers(0, 3), st.floats(0, 40)),
)


def inject(world: World, kind: str, rank: int, more: float) -> None:
    rank %= world.size
    if kind == "crash":
        world.crash(rank, int(more))
    elif kind == "succeed":
        world.crash(rank, 0)
    elif kind == "cut":
        world.cut(rank)
    elif kind == "split":
        world.split(rank)
    elif kind == "freeze":
        world.freeze(rank, more)
    elif kind == "kill":
        world.kill(rank)
        world.later(more, lambda: world.boot(rank))
    elif kind == "replace":
        world.boot(rank)
    elif (node := world.at(rank)) is not None:
        world.act(node, node.machine.termination_requested())
        world.later(4.0 + more, lambda: world.boot(rank))


HISTORIES = given(
    size=st.integers(1, 4),
    faults=st.lists(st.tuples(st.floats(0, 15), FAULT), max_size=12),
    random=st.randoms(use_true_random=False),
)
LENIENT: Final[dict[str, Any]] = {"suppress_health_check": [HealthCheck.too_slow]}


@settings(max_examples=150, **LENIENT)
@HISTORIES
def test_rounds_never_overlap_and_the_gang_connects_again(size: int, faults: Faults, random: Any) -> None:
    comes_to_one_round_or_an_end(size, faults, random)


@pytest.mark.long
@settings(max_examples=5000, **LENIENT)
@HISTORIES
def test_thousands_of_random_histories_keep_the_invariants(size: int, faults: Faults, random: Any) -> None:
    comes_to_one_round_or_an_end(size, faults, random)


def comes_to_one_round_or_an_end(size: int, faults: Faults, random: Any) -> None:
    """Inject faults into a gang, and check its state after them."""
    world = World(size, random)
    for wait, (kind, rank, more) in faults:
        world.run(wait)
        inject(world, kind, rank, more)
    world.run(200)
    for rank in range(size):
        node = world.at(rank)
        if (node is None or node.is_forgotten) and world.nodes[-1].exit_code is None:
            world.boot(rank)
    world.run(200)
    assert world.violations == []
    lead = next(n.leader for n in reversed(world.nodes) if n.rank == 0)
    assert lead is not None
    if lead.state is GangPhase.OVER:
        assert world.running == [None] * size
        return
    done = [s.done for s in lead.slots]
    assert lead.state is GangPhase.RUNNING, (lead.state, world.running)
    for rank, number in enumerate(world.running):
        assert number == lead.round or (number is None and done[rank])


def exited(exit_code: int) -> ProcessExited:
    """Return the exit message of a process of the first round."""
    return ProcessExited(round=0, outcome=ExitResult(exit_code=exit_code))


@pytest.mark.parametrize(
    ("standbys", "continues"),
    [
        pytest.param([1, 1, 1], True, id="every member has one"),
        pytest.param([1, None, 1], False, id="one has none"),
        pytest.param([1, 2, 1], False, id="one is for another round"),
    ],
)
def test_standby_processes_continue_only_if_all_have_one(standbys: list[int | None], continues: bool) -> None:
    world = settled(3)
    lead = leader(world)
    for slot, standby in zip(lead.slots, standbys, strict=True):
        message = exited(137) if slot is lead.slots[0] else ProcessStopped(round=0)
        effects = lead.handle_message(slot.link or 0, message.model_copy(update={"standby": standby}), world.now)
    assert [e.message for e in effects if isinstance(e, Send)] == [
        StartRound(round=1, standby=continues, other_port=True)
    ] * 3


def test_a_replaced_member_has_no_standby_process() -> None:
    world = settled(2)
    lead = leader(world)
    lead.handle_message(lead.slots[0].link or 0, exited(137).model_copy(update={"standby": 1}), world.now)
    lead.member_disconnected(lead.slots[1].link or 0, world.now, lease_expired=False)
    hello = Hello(job=JOB, rank=1, attempt=1, started_at=world.now, highest_round=-1)
    effects = lead.member_connected(99, hello, world.now)
    assert [e.message for e in effects if isinstance(e, Send)] == [StartRound(round=1, other_port=True)] * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_a_program_that_dies_starts_the_next_round_of_all(rank: int) -> None:
    world = settled(3)
    world.crash(rank, 137)
    world.run(30)
    assert world.running == [1, 1, 1]


def test_the_leaders_successor_goes_on_with_a_higher_round() -> None:
    world = settled(3)
    world.crash(1, 137)
    world.run(30)
    world.boot(0)
    world.run(60)
    assert world.running == [2, 2, 2]


def test_of_two_launchers_of_one_rank_the_later_one_stays() -> None:
    world = settled(2)
    old = world.at(1)
    assert old is not None
    new = Node(1, MemberStateMachine(JOB, 1, 0, world.now + 1), None)
    world.nodes.append(new)
    world.act(new, new.machine.start())
    world.run(60)
    assert (old.exit_code, old.program) == (75, None)
    assert new.program == 1


def test_the_gang_waits_for_a_partitioned_member() -> None:
    world = settled(3)
    world.cut(2)
    world.run(90)
    assert world.running == [1, 1, 1]
    failure = leader(world).history.failures[-1]
    assert (failure.role, failure.index, failure.reason, failure.counted) == ("worker", 2, "Disruption", False)


def test_fencing_of_a_partitioned_leader_outlasts_the_loss_of_its_successor() -> None:
    member = MemberStateMachine(JOB, 1, 0, 0.0)
    member.connection_established()
    member.handle_message(StartRound(round=0))
    member.connection_lost(lease_expired=True)
    for _ in range(2):
        [greets] = member.process_exited(0, ExitResult(exit_code=143)) or member.connection_lost(lease_expired=False)
        assert isinstance(greets, ConnectToLeader)
        assert greets.hello.wait_seconds == FENCING_SECONDS, "its program may still run"
        member.connection_established()
    member.handle_message(StartRound(round=1))
    member.process_exited(1, ExitResult(exit_code=1))
    [greets] = member.connection_lost(lease_expired=False)
    assert isinstance(greets, ConnectToLeader)
    assert greets.hello.wait_seconds == 0, "the leader has waited already"


def test_a_partitioned_leader_stops_although_the_others_are_done_since_they_may_join_its_successor() -> None:
    world = settled(2)
    world.crash(1, 0)
    world.run(5)
    world.split(0)
    world.run(60)
    assert world.violations == []
    assert world.running == [1, 1]


@pytest.mark.parametrize("seed", range(8))
def test_a_member_that_stood_still_while_its_leader_was_cut_off_waits_for_the_leaders_program_to_end(seed: int) -> None:
    world = settled(2, seed)
    world.freeze(1, 2.0)
    world.split(0)
    world.run(90)
    assert world.violations == []
    assert world.running == [1, 1]


def test_all_succeed_and_all_launchers_leave_with_0() -> None:
    world = settled(3)
    for rank in (2, 0, 1):
        assert [n.exit_code for n in world.nodes] == [None] * 3
        world.crash(rank, 0)
        world.run(3)
    world.run(30)
    assert [n.exit_code for n in world.nodes] == [0, 0, 0]


def test_past_the_limit_all_leave_with_the_code_of_the_root_cause() -> None:
    world = settled(2, backoff_limit=2)
    for _ in range(2):
        world.crash(1, 137)
        world.run(30)
    assert world.running == [2, 2]
    world.crash(1, 139)
    world.crash(0, 75)
    world.run(60)
    assert [n.exit_code for n in world.nodes] == [139, 139]


@pytest.mark.parametrize(
    ("exit_code", "at_once", "grace_seconds"),
    [
        pytest.param(137, True, STOP_GRACE_SECONDS, id="killed: the root cause is known"),
        pytest.param(70, True, STOP_GRACE_SECONDS, id="failed"),
        pytest.param(42, False, SAVING_SECONDS, id="saved on notice, as the others are about to"),
    ],
)
def test_the_others_are_stopped_at_once_where_the_cause_is_known(
    exit_code: int, at_once: bool, grace_seconds: float
) -> None:
    world = settled(2)
    lead = leader(world)
    effects = lead.handle_message(lead.slots[1].link or 0, exited(exit_code), world.now)
    (stop,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert stop == StopRound(round=0, grace_seconds=grace_seconds, at_once=at_once)


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param((1, "ApplicationError"), id="its program has ended"),
        pytest.param(None, id="its launcher is gone"),
    ],
)
def test_the_lost_peer_is_the_root_cause_although_its_loss_is_reported_first(cause: tuple[int, str] | None) -> None:
    world = settled(3)
    lead = leader(world)
    links = [slot.link for slot in lead.slots]
    assert lead.handle_message(links[0] or 0, exited(75), world.now) == []
    at = world.now + ROOT_CAUSE_WAIT_SECONDS / 2
    effects = (
        lead.handle_message(links[1] or 0, exited(1), at)
        if cause
        else lead.member_disconnected(links[1] or 0, at, lease_expired=False)
    )
    assert effects == [Send(links[2] or 0, StopRound(round=0, grace_seconds=STOP_GRACE_SECONDS, at_once=True))]
    lead.handle_message(links[2] or 0, ProcessStopped(round=0), at)
    causes = [(f.index, f.reason) for f in lead.history.failures if f.root_cause]
    assert causes == ([cause] if cause else []), "the controller records the failure of a deleted pod"


def test_a_lost_peer_that_reports_nothing_ends_the_round_too() -> None:
    world = settled(3)
    world.crash(0, 75)
    world.run(30)
    assert world.running == [1, 1, 1]
    assert [(f.index, f.reason) for f in leader(world).history.failures] == [(0, "PeerLost")]
