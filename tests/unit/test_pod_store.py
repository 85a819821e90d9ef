"""The cache of pods: the newest account of a pod wins, and what is gone is gone."""

from typing import Any

from support.factories import NOW, SETTINGS, UID, view

from tfdist_operator.kube.pod_store import Key, PodStore
from tfdist_operator.planner import plan

KEY = Key("team", "fashion")


def raw(version: int, index: int = 0, uid: str = "u1", **status: Any) -> dict[str, Any]:
    made: dict[str, Any] = plan(view(), NOW, SETTINGS).creates[index]
    meta = made["metadata"] | {"uid": uid, "resourceVersion": str(version)}
    return made | {"metadata": meta, "status": status}


def store() -> tuple[PodStore, list[Key]]:
    changed: list[Key] = []
    return PodStore(changed.append), changed


def test_a_created_pod_is_known_before_the_watch_tells_of_it() -> None:
    pods, changed = store()
    pods.put(raw(5))
    assert [p.name for p in pods.of(KEY, UID)] == ["fashion-worker-0"]
    assert changed == [KEY]


def test_an_older_account_changes_nothing() -> None:
    pods, changed = store()
    pods.put(raw(5, phase="Running"))
    pods.put(raw(4, phase="Pending"))
    assert pods.of(KEY, UID)[0].state == "running"
    assert len(changed) == 1


def test_a_relist_removes_what_vanished_while_nobody_watched() -> None:
    pods, changed = store()
    pods.put(raw(5, 0))
    pods.put(raw(6, 1, "u2"))
    changed.clear()
    pods.retain({"u2"}, 7)
    assert [p.name for p in pods.of(KEY, UID)] == ["fashion-worker-1"]
    assert changed == [KEY]


def test_a_relist_keeps_what_was_created_after_it() -> None:
    pods, _ = store()
    pods.put(raw(9, 0))
    pods.retain(set(), 7)
    assert len(pods) == 1


def test_the_deletion_of_a_predecessor_does_not_remove_its_successor() -> None:
    pods, _ = store()
    pods.put(raw(9, uid="new"))
    pods.remove(raw(8, uid="old"))
    assert len(pods) == 1


def test_pods_of_a_deleted_job_of_the_same_name_are_not_the_new_jobs() -> None:
    pods, _ = store()
    pods.put(raw(5))
    assert pods.of(KEY, "another-uid") == ()


def test_a_sidecar_decides_nothing() -> None:
    pods, _ = store()
    containers = [
        {"name": "log-shipper", "state": {"running": {}}},
        {"name": "tensorflow", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}},
    ]
    pods.put(raw(5, phase="Running", containerStatuses=containers))
    assert pods.of(KEY, UID)[0].state == "succeeded"
