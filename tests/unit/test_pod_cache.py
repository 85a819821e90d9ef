"""The cache of pods: the newest version of a pod wins, and a deleted pod is not restored."""

from typing import Any

import pytest
from support.factories import INSTALLATION, NOW, UID, view

from tfdist.planner import plan
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.kube.keys import NamespacedName

KEY = NamespacedName("team", "fashion")


def raw(version: int, index: int = 0, uid: str = "u1", **status: Any) -> dict[str, Any]:
    made: dict[str, Any] = plan(view(), NOW, INSTALLATION).creates[index]
    meta = made["metadata"] | {"uid": uid, "resourceVersion": str(version)}
    return made | {"metadata": meta, "status": status}


def store() -> tuple[PodCache, list[NamespacedName]]:
    changed: list[NamespacedName] = []
    return PodCache(changed.append), changed


def test_a_created_pod_is_cached_before_the_watch_reports_it() -> None:
    pods, changed = store()
    pods.upsert(raw(5))
    assert [p.name for p in pods.job_pods(KEY, UID)] == ["fashion-worker-0"]
    assert changed == [KEY]


def test_an_older_version_changes_nothing() -> None:
    pods, changed = store()
    pods.upsert(raw(5, phase="Running"))
    pods.upsert(raw(4, phase="Pending"))
    assert pods.job_pods(KEY, UID)[0].state == "running"
    assert len(changed) == 1


def test_a_relist_removes_pods_that_were_deleted_during_a_gap_of_the_watch() -> None:
    pods, changed = store()
    pods.upsert(raw(5, 0))
    pods.upsert(raw(6, 1, "u2"))
    changed.clear()
    pods.replace({"u2"}, 7)
    assert [p.name for p in pods.job_pods(KEY, UID)] == ["fashion-worker-1"]
    assert changed == [KEY]


def test_a_relist_keeps_pods_that_were_created_after_it() -> None:
    pods, _ = store()
    pods.upsert(raw(9, 0))
    pods.replace(set(), 7)
    assert len(pods) == 1


def test_the_deletion_of_a_predecessor_does_not_remove_its_successor() -> None:
    pods, _ = store()
    pods.upsert(raw(9, uid="new"))
    pods.on_delete(raw(8, uid="old"))
    assert len(pods) == 1


def test_pods_of_a_deleted_job_of_the_same_name_are_not_the_new_jobs() -> None:
    pods, _ = store()
    pods.upsert(raw(5))
    assert pods.job_pods(KEY, "another-uid") == ()


def test_a_sidecar_decides_nothing() -> None:
    pods, _ = store()
    containers = [
        {"name": "log-shipper", "state": {"running": {}}},
        {"name": "tensorflow", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
    ]
    pods.upsert(raw(5, phase="Running", containerStatuses=containers))
    assert pods.job_pods(KEY, UID)[0].state == "succeeded"


def test_a_pod_that_is_relabelled_leaves_its_old_job() -> None:
    """Given a pod of `fashion`; when its label names another job, then it is no replica of `fashion`."""
    pods, changed = store()
    pods.upsert(raw(5))
    moved = raw(6)
    moved["metadata"]["labels"]["tfdist.dev/job"] = "other"
    moved["metadata"]["name"] = "fashion-worker-0"
    with pytest.raises(ValueError, match="not the name"):
        pods.upsert(moved)
    assert pods.job_pods(KEY, UID) == ()
    assert len(pods) == 0
    assert changed == [KEY, KEY]


def test_a_pod_whose_labels_are_broken_leaves_its_job() -> None:
    pods, changed = store()
    pods.upsert(raw(5))
    broken = raw(6)
    broken["metadata"]["labels"]["tfdist.dev/index"] = "many"
    with pytest.raises(ValueError, match="many"):
        pods.upsert(broken)
    assert pods.job_pods(KEY, UID) == ()
    assert changed == [KEY, KEY]


def test_the_deletion_of_a_relabelled_pod_is_observed() -> None:
    pods, _ = store()
    pods.upsert(raw(5))
    gone = raw(6)
    gone["metadata"]["labels"] = {}
    pods.on_delete(gone)
    assert len(pods) == 0


@pytest.mark.parametrize("name", ["zz-forged", "fashion-worker-1", "fashion-worker-0-r1"])
def test_only_a_pod_with_the_name_that_its_job_would_give_it_is_a_replica(name: str) -> None:
    """Given a foreign pod with the labels of worker 0; when its name differs, then it is not a replica."""
    pods, _ = store()
    forged = raw(5, phase="Succeeded")
    forged["metadata"]["name"] = name
    with pytest.raises(ValueError, match="not the name"):
        pods.upsert(forged)
    assert pods.job_pods(KEY, UID) == ()


def ended(code: int) -> dict[str, Any]:
    """Return the status of a pod whose container ended with this exit code."""
    containers = [{"name": "tensorflow", "state": {"terminated": {"exitCode": code, "reason": "x"}}}]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}


def test_a_pod_that_succeeded_as_it_was_deleted_stays_until_a_reconcile_has_observed_it() -> None:
    # given a running pod whose end only the event of its deletion reports
    pods, changed = store()
    pods.upsert(raw(5, phase="Running"))
    changed.clear()
    # when it is deleted
    pods.on_delete(raw(7, **ended(0)))
    # then the job has it as succeeded and deleted, and it takes no request
    (found,) = pods.job_pods(KEY, UID)
    assert (found.state, found.deleting, pods.find(KEY, UID, found.name)) == ("succeeded", True, None)
    assert KEY in changed
    # and a reconcile that has observed it removes it
    pods.forget_removed(KEY, pods.removed_uids(KEY))
    assert pods.job_pods(KEY, UID) == ()


@pytest.mark.parametrize("last", [ended(42), ended(137), {"phase": "Running"}])
def test_a_deleted_pod_that_did_not_succeed_is_gone(last: dict[str, Any]) -> None:
    pods, _ = store()
    pods.upsert(raw(5, phase="Running"))
    pods.on_delete(raw(7, **last))
    assert pods.job_pods(KEY, UID) == ()


def test_a_success_before_a_gap_of_the_watch_stays_too() -> None:
    pods, _ = store()
    pods.upsert(raw(5, **ended(0)))
    pods.replace(set(), 7)
    assert len(pods.job_pods(KEY, UID)) == 1


def test_a_standby_keeps_deleted_pods_for_minutes_only() -> None:
    # given the cache of a standby, in which nothing reconciles
    now = [0.0]
    pods = PodCache(lambda _: None, lambda: now[0])
    pods.upsert(raw(5, 0, **ended(0)))
    pods.on_delete(raw(6, 0, **ended(0)))
    # when another pod is deleted ten minutes later
    now[0] = 601.0
    pods.upsert(raw(7, 1, "u2", **ended(0)))
    pods.on_delete(raw(8, 1, "u2", **ended(0)))
    # then only that one is kept
    assert pods.removed_uids(KEY) == {"u2"}


def test_a_job_is_listed_as_waiting_while_one_of_its_pods_is_unschedulable() -> None:
    # given
    pods, _ = store()
    unscheduled = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    pods.upsert(raw(5, 0, "u1", **unscheduled))
    pods.upsert(raw(6, 1, "u2", **unscheduled))
    assert list(pods.unschedulable_jobs()) == [KEY]
    # when one is scheduled, it still waits for the other
    pods.upsert(raw(7, 0, "u1", phase="Running"))
    assert list(pods.unschedulable_jobs()) == [KEY]
    # when the other is deleted
    pods.on_delete(raw(8, 1, "u2", **unscheduled))
    # then
    assert not pods.unschedulable_jobs()
