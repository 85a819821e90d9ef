"""A job that Kueue admits and that runs, after Kueue was removed, or while its API cannot be read."""

from typing import Any

import pytest
from support.factories import created, pod
from support.simulated_kueue import BOTH, Story

from tfdist.api.gang_system import Availability, GangSystem

GAP: dict[str, Any] = {"kueue": None, "systems": {GangSystem.KUEUE: Availability.UNKNOWN}}
REASONS = {Availability.ABSENT: "Missing", Availability.UNKNOWN: "Unknown"}
PS: dict[str, Any] = {"strategy": "ParameterServer", "chief": {}, "ps": {"replicas": 1}, "command": ["run"]}


def test_a_failed_gang_starts_no_pod_while_kueue_is_not_installed_and_goes_on_when_it_is_back() -> None:
    # given
    story = Story().running()
    one_failed = [pod("worker-0", "F"), pod("worker-1", deleting=True)]
    # when
    todo = story.job.reconcile(one_failed, kueue=None)
    # then
    assert created(todo) == []
    # when
    todo = story.job.reconcile(one_failed, after=60, kueue=None)
    # then
    assert created(todo) == []
    assert "the API server does not serve workloads.kueue.x-k8s.io" in story.job.message("PodsReady")
    # when
    todo = story.reconcile("worker-0:F worker-1:F", after=60)
    # then
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]


@pytest.mark.parametrize("scheduling", [{"gang": "Kueue"}, {"queue": "team-a"}], ids=["gang", "queue"])
def test_a_replica_that_fails_while_kueue_cannot_be_read_is_replaced_after_that_whatever_the_start_deadline(
    scheduling: dict[str, Any],
) -> None:
    # given
    story = Story(**PS, scheduling=scheduling, runPolicy={"startDeadlineSeconds": 60})
    story.reconcile()
    story.kueue.admit()
    story.reconcile()
    story.reconcile("chief-0:R worker-0:R worker-1:R ps-0:R")
    # when
    left = "chief-0:R worker-0:R ps-0:R"
    story.job.reconcile([pod("chief-0"), pod("ps-0"), pod("worker-0"), pod("worker-1", "F")], **GAP)
    for _ in range(2):
        assert created(story.job.reconcile(left, after=3600, **GAP)) == []
    # then
    assert story.job.condition_status("PodsReady") == ("False", "GangSchedulerUnknown")
    assert story.job.status["scheduling"]["system"] == "Kueue"
    # when
    todo = story.reconcile(left)
    # then
    assert created(todo) == ["worker-1-r1"]
    assert story.job.status["phase"] != "Failed"


def test_a_job_that_kueue_has_admitted_waits_for_kueue_and_not_for_volcano_after_kueue_was_removed() -> None:
    # given
    story = Story(scheduling={"queue": "team-a"}).running()
    # when Kueue is removed, and the replicas end
    volcano: dict[str, Any] = {"kueue": None, "systems": {GangSystem.VOLCANO: Availability.SERVED}}
    story.job.reconcile("worker-0:F worker-1:F", **volcano)
    todo = story.job.reconcile(after=60, **volcano)
    # then
    assert created(todo) == []
    assert "install Kueue, or create a new job without the queue" in story.job.message("Suspended")
    # when its user removes the queue
    story.job.spec["scheduling"] = {}
    assert created(story.job.reconcile(generation=2, **volcano)) == ["worker-0-r1", "worker-1-r1"]


@pytest.mark.parametrize("found", [Availability.ABSENT, Availability.UNKNOWN])
def test_a_job_that_waited_for_a_system_with_queues_begins_with_attempt_0_when_kueue_is_installed(
    found: Availability,
) -> None:
    # given a job that has waited for Volcano, since Kueue was not there
    story = Story(scheduling={"queue": "team-a"})
    for after in (0, 60):
        story.job.reconcile(after=after, kueue=None, systems={GangSystem.VOLCANO: found})
    assert story.job.condition_status("PodsReady") == ("False", f"GangScheduler{REASONS[found]}")
    # when Kueue is installed, and admits it
    story.reconcile()
    assert story.job.status["phase"] == "Queued"
    story.kueue.admit()
    # then
    assert created(story.reconcile()) == ["worker-0", "worker-1"]
    assert story.job.status["attempt"] == 0
    # when a started attempt is evicted, the next one follows as ever
    story.reconcile(BOTH)
    story.kueue.evict()
    story.reconcile(BOTH)
    story.reconcile()
    story.kueue.admit()
    assert created(story.reconcile()) == ["worker-0-r1", "worker-1-r1"]
