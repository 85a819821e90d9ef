"""The cost of a gang of 10,000 members: nothing that happens often may read the state of all members."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tfdist.contract import LaunchMemberRange, LaunchSettings, LeaderSettings, Phase, ReplicaJob, Role
from tfdist.contract_reports import GangReport, ProgressReport
from tfdist_launch.coordinator import Coordinator
from tfdist_launch.messages import Heartbeat, Hello
from tfdist_launch.report import LeaderReporter
from tfdist_launch.settings import LauncherSettings
from tfdist_launch.slots import GangPhase, ProcessState, Slot

JOB = ReplicaJob(
    name="a",
    namespace="b",
    uid="uid-1",
    strategy="MultiWorkerMirrored",
    role=Role.WORKER,
    index=0,
    replicas={"worker": 3},
)


class CountedSlots(list[Slot]):
    """Slots that count how often all of them are read."""

    reads = 0

    def __iter__(self) -> Iterator[Slot]:
        self.reads += 1
        return super().__iter__()


@pytest.fixture
def coordinator() -> Coordinator:
    """Return the coordinator of three members, two of which are connected."""
    gang = LeaderSettings(member_ranges=[LaunchMemberRange(role=Role.WORKER, index=0, count=3)])
    launch = LaunchSettings(leader="worker-0:8791", rank=0, gang=gang)
    settings = LauncherSettings(JOB.model_copy(update={"launch": launch}), launch, "a", 8791)
    made = Coordinator(settings, gang, lambda _: None)
    for link in (1, 2):
        hello = Hello(job="uid-1", rank=link, attempt=0, started_at=0.0, highest_round=-1)
        made.leader.member_connected(link, hello, 1.0)
    made.leader.slots = CountedSlots(made.leader.slots)
    return made


def reads(coordinator: Coordinator) -> int:
    assert isinstance(coordinator.leader.slots, CountedSlots)
    return coordinator.leader.slots.reads


def test_a_heartbeat_reads_the_slot_of_its_sender_alone(coordinator: Coordinator) -> None:
    assert coordinator.leader.handle_message(1, Heartbeat(alive=False), 2.0) == []
    assert reads(coordinator) == 0


def test_a_tick_of_a_running_round_reads_no_slots(coordinator: Coordinator) -> None:
    coordinator.leader.state = GangPhase.RUNNING
    for slot in coordinator.leader.slots:
        slot.process = ProcessState.RUNNING
    coordinator.tick()  # the first one after a pause adds it to the times of all slots
    before = reads(coordinator)
    for _ in range(10):
        coordinator.tick()
    assert reads(coordinator) == before


def test_the_summary_of_the_gang_is_cached_until_another_failure(coordinator: Coordinator) -> None:
    first = coordinator.report()
    assert coordinator.report() is first
    coordinator.leader.history.count += 1
    assert coordinator.report() is not first


@pytest.mark.parametrize("blocked", [False, True], ids=["", "while the loop is blocked"])
def test_a_leader_computes_the_summary_of_its_gang_when_it_is_requested(
    blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfdist_launch.report.LOOP_TIMEOUT_SECONDS", 0.05 if blocked else 30.0)
    threads: list[int] = []

    def gang() -> GangReport:
        threads.append(threading.get_ident())
        return GangReport(size=3)

    async def test() -> ProgressReport:
        first = ProgressReport(role=Role.WORKER, index=0, attempt=0, phase=Phase.TRAINING)
        reporter = LeaderReporter(first, asyncio.get_running_loop(), gang)
        reporter.replace(first.model_copy(update={"step": 7}))
        assert threads == []
        served = []
        requests = threading.Thread(target=lambda: served.append(reporter.serve()))
        requests.start()
        while requests.is_alive():
            await asyncio.sleep(0.01) if not blocked else requests.join()
        assert reporter.last_served is served[0]
        return served[0]

    report = asyncio.run(test())
    assert (report.step, report.gang) == (7, GangReport(size=3))
    assert (threads[0] == threading.get_ident()) is not blocked
