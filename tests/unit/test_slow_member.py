"""The rule that names a slow member of a gang, on simulated histories of the members' times of a step."""

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

from tfdist_trainer.slow_member import SlowMemberRule

OWN_SECONDS = 0.1
TEN_MINUTES = 600.0
NAMED_WITHIN = 20.0
"""Less than the 30 s of the whole way: the controller reads the report every few seconds."""

Times = npt.NDArray[np.float64]
Factor = Callable[[float], Times | float]
"""Returns by how much each member is slower at a time, [members]."""


def samples(members: int, factor: Factor, *, seed: int = 0, every: float = 0.5) -> Iterator[tuple[float, float, Times]]:
    """Yield (time, duration of a step, times of the members) for ever, with noise and pauses of up to 5 s."""
    random = np.random.default_rng(seed)
    pauses_until, now = np.zeros(members), 0.0
    while True:
        starts = random.random(members) < every / 180
        pauses_until = np.where(starts, now + random.uniform(0, 5, members), pauses_until)
        own = OWN_SECONDS * random.lognormal(0, 0.2, members) * np.where(pauses_until > now, 3.0, 1.0) * factor(now)
        yield now, float(own.max()) + 0.02, np.stack([own, 0.1 * own], axis=1)
        now += every


def named(
    members: int, factor: Factor, *, seconds: float, seed: int = 0, every: float = 0.5
) -> list[tuple[float, int | None]]:
    """Return the time and rank of each change of the name in these seconds."""
    rule = SlowMemberRule()
    changes: list[tuple[float, int | None]] = [(0.0, None)]
    for now, step, times in samples(members, factor, seed=seed, every=every):
        if now > seconds:
            return changes[1:]
        rule.add(now, step, times)
        rank = rule.named.rank if rule.named is not None else None
        if rank != changes[-1][1]:
            changes.append((now, rank))
    raise AssertionError("samples end never")


def slowed(members: int, rank: int, *, since: float, until: float = np.inf, by: float = 2.0) -> Factor:
    def factor(now: float) -> Times:
        result = np.ones(members)
        result[rank] = by if since <= now < until else 1.0
        return result

    return factor


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("members", [2, 3, 8, 64])
def test_no_member_of_a_healthy_gang_is_named_in_ten_minutes(members: int, seed: int) -> None:
    assert named(members, lambda _now: 1.0, seconds=TEN_MINUTES, seed=seed) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("members", [2, 3, 8, 64])
def test_a_member_slowed_to_half_is_named_once_and_in_time(members: int, seed: int) -> None:
    rank = members - 1
    changes = named(members, slowed(members, rank, since=100), seconds=300, seed=seed)
    assert [each for _, each in changes] == [rank]
    assert 100 < changes[0][0] <= 100 + NAMED_WITHIN


def test_a_member_that_recovers_is_no_longer_named() -> None:
    changes = named(4, slowed(4, 2, since=50, until=150), seconds=300)
    assert [each for _, each in changes] == [2, None]
    assert 150 < changes[1][0] <= 150 + 2 * NAMED_WITHIN


def test_a_member_whose_speed_varies_around_the_limit_is_named_at_most_once() -> None:
    factor = lambda now: slowed(4, 1, since=20, by=1.5 + 0.15 * np.sin(now / 7))(now)  # noqa: E731
    assert [each for _, each in named(4, factor, seconds=TEN_MINUTES)] in ([], [1])


def test_a_pause_of_some_seconds_names_no_member() -> None:
    assert named(4, slowed(4, 1, since=100, until=108, by=10.0), seconds=200) == []


def test_of_two_slow_members_that_alternate_one_is_named() -> None:
    """Given two members slowed to half, of which noise makes one and then the other the slowest."""

    def factor(_now: float) -> Times:
        return np.array([1.0, 2.0, 1.0, 2.0, 1.0])

    for seed in range(5):
        ranks = [each for _, each in named(5, factor, seconds=120, seed=seed)]
        assert len(ranks) == 1
        assert ranks[0] in {1, 3}


def test_another_member_that_becomes_much_slower_is_named_instead() -> None:
    def factor(now: float) -> Times:
        return np.array([1.0, 1.0, 2.0, 6.0 if now > 60 else 1.0])

    assert [each for _, each in named(4, factor, seconds=200)] == [2, 3]


def test_one_fast_member_makes_the_others_not_slow() -> None:
    assert named(4, lambda _now: np.array([0.4, 1.0, 1.0, 1.0]), seconds=200) == []


def test_steps_of_several_seconds_are_enough_for_a_name() -> None:
    changes = named(3, slowed(3, 0, since=0), seconds=200, every=8.0)
    assert [each for _, each in changes] == [0]


def test_a_member_is_not_slow_if_the_exchange_takes_most_of_a_step() -> None:
    """Given a member that takes 2 ms instead of 1 ms in steps of 100 ms; then it is not worth a name."""
    rule = SlowMemberRule()
    for second in range(60):
        rule.add(float(second), 0.1, np.array([[0.002, 0.0], [0.001, 0.0], [0.001, 0.0]]))
    assert rule.named is None


def test_the_slow_member_has_its_times_and_those_of_the_others() -> None:
    rule = SlowMemberRule()
    for second in range(60):
        rule.add(float(second), 0.5, np.array([[0.1, 0.0], [0.4, 0.3], [0.2, 0.0]]))
    slow = rule.named
    assert slow is not None
    assert slow.rank == 1
    assert (slow.seconds, slow.input_seconds) == pytest.approx((0.4, 0.3))
    assert slow.others_seconds == pytest.approx(0.15)
