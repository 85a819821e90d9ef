"""Recovery in place on real pods: whatever happens to a program, a launcher, a pod or the network, steps advance again.

Every epoch is counted example by example, so what a recovery loses or repeats is seen.
"""

from collections.abc import Iterator
from typing import Final

import pytest
from support.api import Json
from support.e2e import Cluster
from support.nodes import cut, send_signal, signal_program
from support.polling import wait_for
from support.rounds import Rounds, started

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

KILLS: Final = 10


@pytest.fixture
def gang(cluster: Cluster) -> Iterator[Rounds]:
    """Two workers that train."""
    with started(cluster, "rounds") as rounds:
        yield rounds


def _who(failures: list[Json]) -> list[str]:
    return [f"{failure['role']}-{failure['index']}" for failure in failures]


@pytest.mark.long
@pytest.mark.parametrize(("replicas", "standby"), [(2, False), (4, False), (4, True)])
def test_ten_kills_in_a_row_cost_no_pod_and_no_example(cluster: Cluster, replicas: int, standby: bool) -> None:
    policy = {"backoffLimit": 20, "standby": standby}
    with started(cluster, f"kills-{replicas}", replicas=replicas, epochs=300, runPolicy=policy) as gang:
        pods, victims = gang.uids(), [f"worker-{(number + 1) % replicas}" for number in range(KILLS)]
        for victim in victims:
            gang.steps_after(gang.kill_program(victim), saved=True)
        causes = gang.root_causes(KILLS)
        assert _who(causes) == victims
        assert {(f["reason"], f["counted"], f["exitCode"]) for f in causes} == {("Crash", True, 137)}
        assert [f["round"] for f in causes] == list(range(KILLS))
        assert gang.uids() == pods
        gang.hurry()
        status = gang.jobs.ended(gang.name, seconds=240)
        assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", KILLS)
        assert gang.each_example_once() == 300


@pytest.mark.long
def test_standby_processes_continue_in_the_same_pods_with_the_next_example(cluster: Cluster) -> None:
    policy = {"backoffLimit": 20, "standby": True}
    with started(cluster, "standby", replicas=2, epochs=300, runPolicy=policy) as gang:
        pods, victims = gang.uids(), ["worker-1", "worker-0", "worker-1"]
        for number, victim in enumerate(victims, 1):
            for replica in pods:
                wait_for(f"{replica} to be ready", lambda: f" ready standby={number}" in gang.log(replica))  # noqa: B023  called at once
            gang.steps_after(gang.kill_program(victim), saved=True)
        assert _who(gang.root_causes(len(victims))) == victims
        assert [gang.log(replica).count("standby=True") for replica in pods] == [len(victims)] * 2
        assert gang.uids() == pods
        gang.hurry()
        status = gang.jobs.ended(gang.name, seconds=240)
        assert (status["phase"], status["restarts"]["counted"]) == ("Succeeded", len(victims))
        assert gang.each_example_once() == 300


@pytest.mark.long
def test_two_programs_killed_in_one_moment_are_one_failure(gang: Rounds) -> None:
    pods, before = gang.pods(), gang.now()
    for pod in pods.values():
        signal_program(pod, "KILL")
    gang.steps_after(before)
    gang.root_causes(1)
    assert 1 <= gang.cluster.job(gang.name)["status"]["restarts"]["counted"] <= 2, "two where a round lay between"
    assert gang.uids() == {replica: pod["metadata"]["uid"] for replica, pod in pods.items()}
    gang.each_example_once()


@pytest.mark.long
def test_a_stopped_program_is_named_and_started_again(gang: Rounds) -> None:
    gang.steps_after(gang.kill_program("worker-1", "STOP"))
    (cause,) = gang.root_causes(1)
    assert (_who([cause]), cause["reason"]) == (["worker-1"], "Stalled")
    gang.each_example_once()


@pytest.mark.long
def test_members_that_cannot_reach_each_other_stop_and_go_on_when_they_can(gang: Rounds) -> None:
    pods = gang.pods()
    with cut(pods["worker-0"], pods["worker-1"]):
        wait_for(
            "the gang to wait for worker-1",
            lambda: "worker-1: its launcher is not connected" in gang.jobs.described(gang.name),
        )
    gang.steps_after(gang.now(), saved=True)
    assert gang.uids() == {replica: pod["metadata"]["uid"] for replica, pod in pods.items()}
    gang.each_example_once()


@pytest.mark.parametrize(
    "replica",
    [pytest.param("worker-0", id="the leader's"), pytest.param("worker-1", id="another's", marks=pytest.mark.long)],
)
def test_a_lost_launcher_is_replaced_alone_and_its_gang_goes_on(gang: Rounds, replica: str) -> None:
    before, pods = gang.now(), gang.pods()
    send_signal(pods[replica], "KILL")
    _is_replaced(gang, replica, pods)
    gang.steps_after(before, saved=True)
    (cause,) = gang.root_causes(1)
    assert (_who([cause]), cause["reason"], cause["counted"]) == ([replica], "Crash", True)
    gang.each_example_once()


@pytest.mark.long
@pytest.mark.parametrize("replica", ["worker-0", "worker-1"], ids=["the leader's", "another's"])
def test_a_deleted_pod_saves_with_its_gang_and_is_replaced_alone_uncounted(gang: Rounds, replica: str) -> None:
    before, pods = gang.now(), gang.pods()
    gang.jobs.delete_pod(pods[replica]["metadata"]["name"])
    _is_replaced(gang, replica, pods)
    gang.steps_after(before, saved=True)
    status = gang.cluster.job(gang.name)["status"]
    assert (status["restarts"]["counted"], status["restarts"]["uncounted"]) == (0, 1)
    gang.each_example_once()


def _is_replaced(gang: Rounds, replica: str, pods: dict[str, Json]) -> None:
    """Wait until a replica has another pod that runs, and see that all others are the same."""

    def replaced() -> bool:
        pod = gang.pods()[replica]
        is_new: bool = pod["metadata"]["uid"] != pods[replica]["metadata"]["uid"]
        return is_new and pod["status"]["phase"] == "Running"

    wait_for(f"a new pod of {replica}", replaced)
    others = {name: uid for name, uid in gang.uids().items() if name != replica}
    assert others == {name: pod["metadata"]["uid"] for name, pod in pods.items() if name != replica}
