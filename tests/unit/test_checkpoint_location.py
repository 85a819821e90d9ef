"""Which jobs write checkpoints to one place, as the cache of jobs finds them."""

from typing import Any

import pytest
from support.factories import manifest

from tfdist_operator.cache.job_cache import CachedJob, JobCache
from tfdist_operator.kube.keys import NamespacedName

CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "ckpt"}}


def raw(name: str, checkpoint: Any, *, namespace: str = "team", created: str = "", **spec: Any) -> dict[str, Any]:
    made = manifest(**({"checkpoint": checkpoint} if checkpoint else {}), **spec)
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "5"}
    return made | {"metadata": made["metadata"] | metadata | {"creationTimestamp": created or "2030-01-01T00:00:00Z"}}


def get(jobs: JobCache, name: str) -> CachedJob:
    found = jobs.get(NamespacedName("team", name))
    assert found is not None
    assert not found.problems, found.problems
    return found


def users(*raws: dict[str, Any]) -> list[str]:
    """Return the users of the directory of job `b` that come before it."""
    jobs = JobCache()
    for each in raws:
        jobs.upsert(each)
    return [user.name for user in jobs.directory_users(get(jobs, "b"))]


def on(directory: str, volume: Any = CLAIM) -> dict[str, Any]:
    return {"directory": directory, "volume": volume} if volume else {"directory": directory}


def mounted(path: str, **mount: Any) -> dict[str, Any]:
    return {
        "volumes": [{"name": "all", **CLAIM}],
        "volumeMounts": [{"name": "all", "mountPath": path, **mount}],
    }


NFS = {"nfs": {"server": "s", "path": "/x"}}


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        pytest.param(on("/ckpt"), on("/ckpt"), True, id="claim"),
        pytest.param(on("/ckpt"), on("/ckpt/"), True, id="spelling"),
        pytest.param(on("/ckpt"), on("/elsewhere"), True, id="each mounts the claim itself, under another path"),
        pytest.param(on("/ckpt/{name}"), on("/ckpt/{name}"), False, id="placeholder"),
        pytest.param(on("/ckpt/{name}"), on("/ckpt/{uid}"), False, id="two placeholders"),
        pytest.param(on("/ckpt"), on("/ckpt", {"persistentVolumeClaim": {"claimName": "b"}}), False, id="other claim"),
        pytest.param(on("/ckpt", NFS), on("/ckpt", NFS), True, id="nfs"),
        pytest.param(on("gs://b/a", None), on("gs://b/a/", None), True, id="bucket"),
        pytest.param(on("gs://b/a", None), on("gs://b/c", None), False, id="other folder of a bucket"),
        pytest.param(on("/tmp/x", None), on("/tmp/x", None), False, id="no volume: each pod has its own directory"),
        pytest.param(on("/c", {"emptyDir": {}}), on("/c", {"emptyDir": {}}), False, id="emptyDir"),
    ],
)
def test_jobs_are_compared_by_their_place_on_storage(first: Any, second: Any, same: bool) -> None:
    alone: Any = {"strategy": "OneDevice", "worker": {"replicas": 1}}  # several pods need a shared volume
    assert users(raw("a", first, **alone), raw("b", second, **alone)) == (["a"] if same else [])


def test_a_directory_below_a_mounted_volume_is_found_too() -> None:
    a = raw("a", on("/data/x", None), **mounted("/data"))
    assert users(a, raw("b", on("/m", None), **mounted("/m", subPath="x"))) == ["a"]
    assert users(a, raw("b", on("/data/y", None), **mounted("/data"))) == []


def test_other_namespaces_evaluations_and_jobs_of_other_controllers_do_not_count() -> None:
    there = on("/ckpt")
    assert users(raw("a", there, namespace="other"), raw("b", there)) == []
    assert users(raw("a", there, task="Evaluate"), raw("b", there)) == []
    assert users(raw("a", there, runPolicy={"managedBy": "kueue.x-k8s.io/multikueue"}), raw("b", there)) == []
    assert users(raw("a", None), raw("b", there)) == []


def test_a_job_that_is_deleted_or_changed_is_no_user_any_more() -> None:
    jobs = JobCache()
    jobs.upsert(raw("a", on("/ckpt"), created="2031-01-01T00:00:00Z"))
    other = raw("b", on("/ckpt"))
    jobs.upsert(other)
    a = get(jobs, "a")
    assert [user.name for user in jobs.directory_users(a)] == ["b"]
    moved = raw("b", on("/ckpt/{name}"))
    moved["metadata"] |= {"generation": 2, "resourceVersion": "6"}
    jobs.upsert(moved)
    assert jobs.directory_users(a) == ()
    back = raw("b", on("/ckpt"))
    back["metadata"] |= {"generation": 3, "resourceVersion": "7"}
    jobs.upsert(back)
    assert len(jobs.directory_users(a)) == 1
    jobs.on_delete(back | {"metadata": back["metadata"] | {"resourceVersion": "8"}})
    assert jobs.directory_users(a) == ()


def test_the_older_of_two_jobs_is_known_also_if_they_were_created_in_the_same_second() -> None:
    jobs = JobCache()
    for each in (raw("a", on("/ckpt")), raw("b", on("/ckpt")), raw("c", on("/ckpt"), created="2029-01-01T00:00:00Z")):
        jobs.upsert(each)
    older = {user.name: user.is_older for user in jobs.directory_users(get(jobs, "b"))}
    assert older == {"c": True}, "the oldest of those that wait"
    assert jobs.directory_users(get(jobs, "c")) == ()
    jobs.on_delete(raw("c", on("/ckpt")))
    assert [(user.name, user.is_older) for user in jobs.directory_users(get(jobs, "b"))] == [("a", True)]
