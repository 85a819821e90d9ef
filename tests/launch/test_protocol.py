"""The rendezvous over a simulated network: delay, loss, silence, and crashes of any launcher or program at any time.

Two promises: programs of two rounds never run at the same time; and when the faults end, either one round of all
members runs, or the gang has come to a clean end.
"""

import random as pseudorandom
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.simulated_gang import JOB, Node, World

from tfdist_launch.gang import DRAIN_SECONDS, Send, Standing
from tfdist_launch.leader import WORDS_SECONDS, Leader
from tfdist_launch.member import STOP_GRACE_SECONDS, SURE_SECONDS, Greet, MemberMachine
from tfdist_launch.messages import Ended, Hello, Outcome, Start, Stop, Stopped

Faults = list[tuple[float, tuple[str, int, float]]]
FAULT = st.one_of(
    st.tuples(st.just("crash"), st.integers(0, 3), st.sampled_from([1, 75, 137])),
    st.tuples(st.just("kill"), st.integers(0, 3), st.floats(0, 20)),
    st.tuples(st.just("cut"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("terminate"), st.integers(0, 3), st.floats(0, 20)),
    st.tuples(st.just("replace"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("split"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("succeed"), st.integers(0, 3), st.just(0)),
)


def strike(world: World, kind: str, seat: int, more: float) -> None:
    seat %= world.size
    if kind == "crash":
        world.crash(seat, int(more))
    elif kind == "succeed":
        world.crash(seat, 0)
    elif kind == "cut":
        world.cut(seat)
    elif kind == "split":
        world.split(seat)
    elif kind == "kill":
        world.kill(seat)
        world.later(more, lambda: world.boot(seat))
    elif kind == "replace":
        world.boot(seat)
    elif (node := world.at(seat)) is not None:
        world.act(node, node.machine.terminated())
        world.later(4.0 + more, lambda: world.boot(seat))


HISTORIES = given(
    size=st.integers(1, 4),
    faults=st.lists(st.tuples(st.floats(0, 15), FAULT), max_size=12),
    random=st.randoms(use_true_random=False),
)
LENIENT: Final[dict[str, Any]] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}


@settings(max_examples=150, derandomize=True, **LENIENT)
@HISTORIES
def test_rounds_never_overlap_and_the_gang_meets_again(size: int, faults: Faults, random: Any) -> None:
    comes_to_one_round_or_an_end(size, faults, random)


@pytest.mark.long
@settings(max_examples=5000, **LENIENT)
@HISTORIES
def test_neither_does_any_of_thousands_of_new_histories(size: int, faults: Faults, random: Any) -> None:
    comes_to_one_round_or_an_end(size, faults, random)


def comes_to_one_round_or_an_end(size: int, faults: Faults, random: Any) -> None:
    """Strike a gang with faults, and look at it when they are over."""
    world = World(size, random)
    for wait, (kind, seat, more) in faults:
        world.run(wait)
        strike(world, kind, seat, more)
    world.run(200)
    for seat in range(size):
        if world.at(seat) is None and world.nodes[-1].exit_code is None:
            world.boot(seat)
    world.run(200)
    assert world.violations == []
    lead = next(n.leader for n in reversed(world.nodes) if n.seat == 0)
    assert lead is not None
    if lead.standing is Standing.OVER:
        assert world.running == [None] * size
        return
    seats_done = [s.done for s in lead.seats]
    assert lead.standing is Standing.RUNNING, (lead.standing, world.running)
    for seat, number in enumerate(world.running):
        assert number == lead.round or (number is None and seats_done[seat])


def settled(size: int = 2, **options: Any) -> World:
    """Return a world whose gang runs its first round."""
    world = World(size, pseudorandom.Random(1), **options)  # noqa: S311  no secret
    world.run(60)
    assert world.running == [0] * size
    return world


def leader(world: World) -> Leader:
    """Return the one that leads now."""
    node = world.at(0)
    assert node is not None
    assert node.leader is not None
    return node.leader


def ended(exit_code: int) -> Ended:
    """Return what is told of a program of the first round."""
    return Ended(round=0, outcome=Outcome(exit_code=exit_code))


@pytest.mark.parametrize(
    ("reserves", "goes_on"),
    [
        pytest.param([1, 1, 1], True, id="every member has one"),
        pytest.param([1, None, 1], False, id="one has none"),
        pytest.param([1, 2, 1], False, id="one is for another round"),
    ],
)
def test_a_round_goes_on_with_programs_in_reserve_only_together(reserves: list[int | None], goes_on: bool) -> None:
    world = settled(3)
    lead = leader(world)
    for seat, reserve in zip(lead.seats, reserves, strict=True):
        word = ended(137) if seat is lead.seats[0] else Stopped(round=0)
        effects = lead.told(seat.link or 0, word.model_copy(update={"standby": reserve}), world.now)
    assert [e.message for e in effects if isinstance(e, Send)] == [Start(round=1, standby=goes_on, other_port=True)] * 3


def test_a_member_that_has_come_anew_has_nothing_in_reserve() -> None:
    world = settled(2)
    lead = leader(world)
    lead.told(lead.seats[0].link or 0, ended(137).model_copy(update={"standby": 1}), world.now)
    lead.left(lead.seats[1].link or 0, world.now, silent=False)
    hello = Hello(job=JOB, seat=1, attempt=1, born=world.now, highest_round=-1)
    effects = lead.joined(99, hello, world.now)
    assert [e.message for e in effects if isinstance(e, Send)] == [Start(round=1, other_port=True)] * 2


@pytest.mark.parametrize("seat", [0, 1])
def test_a_program_that_dies_starts_the_next_round_of_all(seat: int) -> None:
    world = settled(3)
    world.crash(seat, 137)
    world.run(30)
    assert world.running == [1, 1, 1]


def test_the_leaders_successor_goes_on_with_a_higher_round() -> None:
    world = settled(3)
    world.crash(1, 137)
    world.run(30)
    world.boot(0)
    world.run(60)
    assert world.running == [2, 2, 2]


def test_two_launchers_of_one_seat_end_with_the_later_one() -> None:
    world = settled(2)
    old = world.at(1)
    assert old is not None
    new = Node(1, MemberMachine(JOB, 1, 0, world.now + 1), None)
    world.nodes.append(new)
    world.act(new, new.machine.begin())
    world.run(60)
    assert (old.exit_code, old.program) == (75, None)
    assert new.program == 1


def test_a_member_cut_off_is_waited_for_and_comes_back() -> None:
    world = settled(3)
    world.cut(2)
    world.run(90)
    assert world.running == [1, 1, 1]
    failure = leader(world).history.failures[-1]
    assert (failure.role, failure.index, failure.reason, failure.counted) == ("worker", 2, "Disruption", False)


def test_a_leader_cut_off_is_waited_for_although_its_successor_is_lost_too() -> None:
    member = MemberMachine(JOB, 1, 0, 0.0)
    member.linked()
    member.heard(Start(round=0))
    member.unlinked(silent=True)
    for _ in range(2):
        [greets] = member.ended(0, Outcome(exit_code=143)) or member.unlinked(silent=False)
        assert isinstance(greets, Greet)
        assert greets.hello.wait_seconds == SURE_SECONDS, "its program may still run"
        member.linked()
    member.heard(Start(round=1))
    member.ended(1, Outcome(exit_code=1))
    [greets] = member.unlinked(silent=False)
    assert isinstance(greets, Greet)
    assert greets.hello.wait_seconds == 0, "a leader that was told has waited"


def test_a_leader_cut_off_stops_although_the_others_are_done_since_they_may_begin_anew_with_its_successor() -> None:
    world = settled(2)
    world.crash(1, 0)
    world.run(5)
    world.split(0)
    world.run(60)
    assert world.violations == []
    assert world.running == [1, 1]


def test_all_succeed_and_all_launchers_leave_with_0() -> None:
    world = settled(3)
    for seat in (2, 0, 1):
        assert [n.exit_code for n in world.nodes] == [None] * 3
        world.crash(seat, 0)
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
        pytest.param(137, True, STOP_GRACE_SECONDS, id="killed: nobody waits for the others' words"),
        pytest.param(70, True, STOP_GRACE_SECONDS, id="failed"),
        pytest.param(42, False, DRAIN_SECONDS, id="saved on notice, as the others are about to"),
    ],
)
def test_the_others_are_stopped_at_once_where_the_cause_is_known(
    exit_code: int, at_once: bool, grace_seconds: float
) -> None:
    world = settled(2)
    lead = leader(world)
    effects = lead.told(lead.seats[1].link or 0, ended(exit_code), world.now)
    (stop,) = [effect.message for effect in effects if isinstance(effect, Send)]
    assert stop == Stop(round=0, grace_seconds=grace_seconds, at_once=at_once)


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param((1, "ApplicationError"), id="its program has ended"),
        pytest.param(None, id="its launcher is gone"),
    ],
)
def test_the_peer_that_was_lost_is_the_cause_although_its_loss_is_told_first(cause: tuple[int, str] | None) -> None:
    world = settled(3)
    lead = leader(world)
    links = [seat.link for seat in lead.seats]
    assert lead.told(links[0] or 0, ended(75), world.now) == []
    at = world.now + WORDS_SECONDS / 2
    effects = lead.told(links[1] or 0, ended(1), at) if cause else lead.left(links[1] or 0, at, silent=False)
    assert effects == [Send(links[2] or 0, Stop(round=0, grace_seconds=STOP_GRACE_SECONDS, at_once=True))]
    lead.told(links[2] or 0, Stopped(round=0), at)
    causes = [(f.index, f.reason) for f in lead.history.failures if f.root_cause]
    assert causes == ([cause] if cause else []), "a pod that is gone is told of by the cluster"


def test_a_lost_peer_of_which_nothing_more_is_heard_ends_the_round_all_the_same() -> None:
    world = settled(3)
    world.crash(0, 75)
    world.run(30)
    assert world.running == [1, 1, 1]
    assert [(f.index, f.reason) for f in leader(world).history.failures] == [(0, "PeerLost")]
