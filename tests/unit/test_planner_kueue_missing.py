"""A job that Kueue admits, after Kueue was removed."""

from support.factories import created, pod
from support.simulated_kueue import Story


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
    assert "the API server serves no workloads.kueue.x-k8s.io" in story.job.message("PodsReady")
    # when
    todo = story.reconcile("worker-0:F worker-1:F", after=60)
    # then
    assert created(todo) == ["worker-0-r1", "worker-1-r1"]
