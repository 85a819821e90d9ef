"""The members' times of a step: each shares its own in one exchange, and the chief names the slow one."""

import numpy as np
import pytest

from tfdist.contract import ReplicaJob, Role
from tfdist.contract_reports import SlowReplica
from tfdist_trainer.environment import GangMember
from tfdist_trainer.gang_times import GangTimes


class Gang:
    """Members that exchange their times as processes do; a second passes with each exchange."""

    def __init__(self, size: int) -> None:
        self.now = 0.0
        self.members = [GangTimes(rank, size, lambda: self.now) for rank in range(size)]

    def execute(self, *own: float, exchange: float | None = None) -> int:
        """Run an execution of ten steps with these own times, in seconds; return the number of figures exchanged."""
        slowest = max(own)
        for times, seconds in zip(self.members, own, strict=True):
            wait = slowest - seconds + 0.001 if exchange is None else exchange
            times.observe(10, 10 * (seconds + wait), input_wait=seconds, exchange_wait=10 * wait)
        return self.exchange()

    def exchange(self) -> int:
        self.now += 1.0
        shared = [times.figures_to_share() for times in self.members]
        for times in self.members:
            times.receive(np.sum(shared, axis=0))
        return len(shared[0])

    def slow(self, rank: int = 0, *, chiefs: int = 0) -> SlowReplica | None:
        size = len(self.members)
        replicas = {"chief": chiefs, "worker": size - chiefs} if chiefs else {"worker": size}
        job = ReplicaJob(
            name="t", namespace="d", uid="u", strategy="MultiWorkerMirrored", role="worker", index=0, replicas=replicas
        )
        return self.members[rank].slow_replica(GangMember(job=job, rank=rank, size=size, addresses=()))


def test_the_chief_names_the_slow_member_and_its_times() -> None:
    gang = Gang(3)
    for _ in range(30):
        assert gang.execute(0.1, 0.1, 0.3) == 6
    slow = gang.slow()
    assert slow is not None
    assert (slow.role, slow.index) == (Role.WORKER, 2)
    assert (slow.own_millis, slow.others_millis) == pytest.approx((300, 100))
    assert slow.input_wait_millis == pytest.approx(30)
    assert gang.slow(1) is None, "only the chief reports it"
    assert (found := gang.slow(chiefs=1)) is not None
    assert (found.role, found.index) == (Role.WORKER, 1)


def test_a_slow_chief_is_named_by_itself() -> None:
    gang = Gang(2)
    for _ in range(30):
        gang.execute(0.2, 0.1)
    assert (slow := gang.slow(chiefs=1)) is not None
    assert (slow.role, slow.index) == (Role.CHIEF, 0)


def test_executions_without_measured_exchange_name_no_member() -> None:
    gang = Gang(2)
    for _ in range(60):
        gang.execute(0.1, 0.4, exchange=0.0)
    assert gang.slow() is None


def test_exchanges_without_an_execution_share_nothing() -> None:
    """Given a save between two executions, which needs an exchange of its own; then the times are those of steps."""
    gang = Gang(2)
    for _ in range(30):
        gang.execute(0.1, 0.3)
        gang.exchange()
    assert (slow := gang.slow()) is not None
    assert slow.own_millis == pytest.approx(300)


def test_a_single_replica_exchanges_nothing() -> None:
    gang = Gang(1)
    assert gang.execute(0.1) == 0
    assert gang.slow() is None


def test_members_of_a_large_gang_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfdist_trainer.gang_times.MAX_SHARED", 4)
    gang, own = Gang(10), np.full(10, 0.1)
    own[-1] = 0.3
    for _ in range(60):
        assert gang.execute(*own) == 2 * 4
    assert (slow := gang.slow()) is not None
    assert slow.index == 9
    assert slow.own_millis == pytest.approx(300)
