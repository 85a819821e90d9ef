"""A gang that is scheduled in part releases its nodes if other jobs wait for nodes, so that no jobs wait for ever."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.factories import CHECKPOINT, Lifecycle, created, event_reasons, pod
from support.node_contention import Contest

from tfdist.api.gang_system import GangSystem
from tfdist.observed.job_view import Contention
from tfdist.observed.pod import PodSummary
from tfdist.timestamps import rfc3339

OTHERS_WAIT = Contention(others=2, is_oldest=False)
OLDEST = Contention(others=2, is_oldest=True)
NO_NODE = {"reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu.", "node": ""}
STARTED = "2030-01-02T03:04:05Z"


def unscheduled(name: str) -> PodSummary:
    return pod(name, "P", created_at=STARTED, **NO_NODE)


def scheduled(name: str) -> PodSummary:
    return pod(name, "R", created_at=STARTED)


PARTIAL = [scheduled("worker-0"), unscheduled("worker-1")]


def begun(**spec: Any) -> Lifecycle:
    job = Lifecycle(**spec)
    job.reconcile()
    job.reconcile(PARTIAL)
    return job


def test_a_gang_that_is_scheduled_in_part_releases_its_nodes_after_the_timeout_and_starts_again_later() -> None:
    # given
    job = begun(scheduling={"timeoutSeconds": 100})
    # when other jobs wait, and the timeout has passed
    assert job.reconcile(PARTIAL, after=99, contention=OTHERS_WAIT).deletes == ()
    todo = job.reconcile(PARTIAL, after=1, contention=OTHERS_WAIT)
    # then
    assert sorted(todo.deletes) == ["fashion-worker-0", "fashion-worker-1"]
    assert not created(todo)
    assert job.condition_status("PodsReady") == ("False", "PodsReadyTimeout")
    message = job.message("PodsReady")
    assert "training released the nodes of 1 replica, because worker-1 had none for 100 s" in message
    assert "2 other jobs wait for nodes: 0/3 nodes are available: 3 Insufficient cpu." in message
    assert event_reasons(todo) == ["PodsReadyTimeout"]
    # when the delay has passed
    assert todo.requeue_after_seconds is not None
    assert 50 <= todo.requeue_after_seconds <= 150
    assert not created(job.reconcile(after=49))
    # then
    assert created(job.reconcile(after=101)) == ["worker-0-r1", "worker-1-r1"]
    assert job.status["restarts"]["counted"] == job.status["restarts"]["uncounted"] == 0


@pytest.mark.parametrize("contention", [OTHERS_WAIT, OLDEST])
def test_a_gang_that_gets_its_nodes_after_a_long_wait_keeps_them(contention: Contention) -> None:
    # given a gang that has waited far longer than the timeout
    job = Lifecycle(scheduling={"timeoutSeconds": 100})
    job.reconcile()
    job.reconcile([unscheduled("worker-0"), unscheduled("worker-1")], after=1000, contention=contention)
    # when the controller sees the first pod with a node, before the second
    first = pod("worker-0", "P", created_at=STARTED, scheduled_at=rfc3339(job.now))
    todo = job.reconcile([first, unscheduled("worker-1")], contention=contention)
    # then
    assert todo.deletes == ()
    assert todo.requeue_after_seconds == pytest.approx(200 if contention.is_oldest else 100)


def test_the_timeout_counts_from_when_the_gang_got_its_first_node_with_another_controller_too() -> None:
    # given a gang whose first replica has had a node for 99 s, and another for less
    job = Lifecycle(worker={"replicas": 3}, scheduling={"timeoutSeconds": 100})
    job.reconcile(after=1000)
    held = [pod(f"worker-{i}", created_at=STARTED, scheduled_at=rfc3339(job.now)) for i in (0, 1)]
    pods = [held[0], replace(held[1], scheduled_at=rfc3339(job.now + timedelta(seconds=50))), unscheduled("worker-2")]
    assert job.reconcile(pods, after=99, contention=OTHERS_WAIT).deletes == ()
    # when a controller that has just begun to lead reconciles it
    todo = job.reconcile(pods, after=1, contention=OTHERS_WAIT, observed_since=rfc3339(job.now))
    # then
    assert len(todo.deletes) == 3
    assert "worker-2 had none for 100 s" in job.message("PodsReady")


def test_the_timeout_does_not_count_before_the_replica_without_a_node_was_created() -> None:
    job = Lifecycle(scheduling={"timeoutSeconds": 100})
    job.reconcile()
    late = replace(unscheduled("worker-1"), created_at=rfc3339(job.now + timedelta(seconds=500)))
    todo = job.reconcile([scheduled("worker-0"), late], after=510, contention=OTHERS_WAIT)
    assert todo.deletes == ()


@pytest.mark.parametrize("system", [GangSystem.NATIVE, GangSystem.VOLCANO, GangSystem.COSCHEDULING])
def test_with_a_gang_scheduler_nothing_is_released(system: GangSystem) -> None:
    job = Lifecycle(scheduling={"gang": system, "timeoutSeconds": 100})
    served = frozenset({system})
    job.reconcile(served_systems=served)
    todo = job.reconcile(PARTIAL, after=100_000, contention=OTHERS_WAIT, served_systems=served)
    assert todo.deletes == ()


def test_the_oldest_job_that_waits_keeps_its_nodes_for_twice_the_timeout() -> None:
    job = begun(scheduling={"timeoutSeconds": 100})
    assert job.reconcile(PARTIAL, after=199, contention=OLDEST).deletes == ()
    assert len(job.reconcile(PARTIAL, after=1, contention=OLDEST).deletes) == 2


def test_the_delay_doubles_with_each_further_release() -> None:
    job, delays = begun(scheduling={"timeoutSeconds": 100}), []
    for attempt in range(3):
        suffix = f"-r{attempt}" if attempt else ""
        pods = [pod("worker-0" + suffix, created_at=STARTED), unscheduled("worker-1" + suffix)]
        delays.append(job.reconcile(pods, after=5000, contention=OTHERS_WAIT).requeue_after_seconds or 0)
    assert 50 <= delays[0] <= 150
    assert 100 <= delays[1] <= 300
    assert 200 <= delays[2] <= 600


@pytest.mark.parametrize(
    ("pods", "contention", "spec"),
    [
        pytest.param(PARTIAL, Contention(), {}, id="no other job waits"),
        pytest.param([unscheduled("worker-0"), unscheduled("worker-1")], OTHERS_WAIT, {}, id="no replica has a node"),
        pytest.param(PARTIAL, OTHERS_WAIT, {"scheduling": {"minAvailable": 1}}, id="minAvailable replicas have one"),
        pytest.param(
            [scheduled("worker-0"), pod("worker-1", "P", created_at=STARTED, reason="ContainerCreating")],
            OTHERS_WAIT,
            {},
            id="the other replica has a node and pulls its image",
        ),
    ],
)
def test_nodes_are_kept(pods: list[PodSummary], contention: Contention, spec: dict[str, Any]) -> None:
    job = begun(**spec)
    todo = job.reconcile(pods, after=100_000, contention=contention)
    assert todo.deletes == ()


def test_whether_other_jobs_wait_is_checked_again_within_the_timeout() -> None:
    job = begun(scheduling={"timeoutSeconds": 100})
    assert job.reconcile(PARTIAL, after=200, contention=Contention()).requeue_after_seconds == 10


def test_a_gang_that_has_run_keeps_its_nodes_while_a_replica_is_replaced() -> None:
    # given a gang with parameter servers, whose workers are replaced alone
    job = Lifecycle("chief-0:R worker-0:R ps-0:R", strategy="ParameterServer", chief={}, ps={}, worker={"replicas": 1})
    pods = [pod("chief-0"), pod("ps-0"), unscheduled("worker-0-r1")]
    job.reconcile([pod("chief-0"), pod("ps-0"), pod("worker-0", "F")])
    # when
    todo = job.reconcile(pods, after=100_000, contention=OTHERS_WAIT)
    # then
    assert todo.deletes == ()


def test_the_evaluator_releases_its_node_with_the_gang() -> None:
    # given
    job = Lifecycle(checkpoint=CHECKPOINT, evaluation={"mode": "Continuous"}, scheduling={"timeoutSeconds": 100})
    job.reconcile()
    pods = [*PARTIAL, pod("evaluator-0", created_at=STARTED)]
    # when
    todo = job.reconcile(pods, after=100, contention=OTHERS_WAIT)
    # then
    assert "fashion-evaluator-0" in todo.deletes
    assert not created(job.reconcile(after=10))
    assert created(job.reconcile(after=150)) == ["worker-0-r1", "worker-1-r1", "evaluator-0-r1"]


def test_a_release_does_not_extend_the_start_deadline() -> None:
    # given
    job = begun(scheduling={"timeoutSeconds": 100}, runPolicy={"startDeadlineSeconds": 300})
    job.reconcile(PARTIAL, after=100, contention=OTHERS_WAIT)
    job.reconcile(after=150)
    # when the pods of the next attempt are unschedulable too
    again = [pod(f"worker-{i}-r1", "P", created_at="2030-01-02T03:08:15Z", **NO_NODE) for i in (0, 1)]
    job.reconcile(again, after=10)
    job.reconcile(again, after=60)
    # then
    assert job.condition_status("Failed") == ("True", "Unschedulable")


def test_thirty_gangs_of_three_finish_on_twelve_nodes_in_any_order_of_scheduling() -> None:
    contest = Contest(jobs=30, replicas=3, nodes=12)
    contest.run(seconds=20_000)
    assert contest.finished == 30


@pytest.mark.parametrize("gang", [False, True], ids=["None", "Native"])
def test_ten_gangs_of_two_on_two_nodes_finish_and_none_is_thrown_out_when_it_gets_its_nodes(gang: bool) -> None:
    contest = Contest(jobs=10, replicas=2, nodes=2, gang=gang)
    contest.run(seconds=20_000)
    assert (contest.finished, contest.wrong_releases) == (10, 0)
    assert not (gang and contest.releases)


def test_without_the_release_of_nodes_thirty_gangs_of_three_wait_for_ever() -> None:
    contest = Contest(jobs=30, replicas=3, nodes=12, releases=False)
    contest.run(seconds=600)
    assert contest.finished < 30


def test_a_gang_that_never_fits_does_not_keep_the_others_from_their_nodes() -> None:
    contest = Contest(jobs=10, replicas=3, nodes=12, oversized=1)
    contest.run(seconds=20_000)
    assert contest.finished == 10
