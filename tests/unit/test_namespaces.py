"""A controller of several namespaces: each has watches of its own, which say nothing of the others."""

from support.factories import UID, manifest
from support.raw import raw_pod as pod

from tfdist_operator.kube.informer import Watched
from tfdist_operator.kube.job_store import JobStore
from tfdist_operator.kube.pod_store import Key
from tfdist_operator.kube.sinks import WatchedJobs, WatchedPods
from tfdist_operator.observed.pod import PodSummary


def pod_of(namespace: str, version: int) -> dict[str, object]:
    made = pod(version)
    return made | {"metadata": made["metadata"] | {"namespace": namespace}}


def pods_of(store: WatchedPods, namespace: str) -> tuple[PodSummary, ...]:
    return store.of(Key(namespace, "fashion"), UID)


def job_of(namespace: str, version: int) -> dict[str, object]:
    made = manifest(namespace=namespace)
    made["metadata"] |= {"uid": UID, "resourceVersion": str(version), "generation": 1}
    return made


def test_a_namespace_s_path_is_that_of_its_own_collection() -> None:
    assert Watched.of("api/v1", "pods", "a").path == "/api/v1/namespaces/a/pods"
    assert Watched.of("api/v1", "pods", "").path == "/api/v1/pods"


def test_a_list_of_one_namespace_forgets_nothing_of_another() -> None:
    store = WatchedPods(lambda _: None)
    store.take(pod_of("a", 3))
    store.take(pod_of("b", 4))
    store.retain(set(), 9, "a")
    assert not pods_of(store, "a")
    assert pods_of(store, "b")


def test_a_created_pod_is_known_though_the_watch_of_another_namespace_is_further() -> None:
    store = WatchedPods(lambda _: None)
    store.reached(9, "a")
    store.reached(5, "b")
    store.put(pod_of("b", 7))
    store.put(pod_of("a", 8))
    assert pods_of(store, "b")
    assert not pods_of(store, "a"), "its own watch has passed that version: the pod is gone since"


def test_jobs_of_namespaces_are_kept_apart_in_the_same_way() -> None:
    jobs = JobStore()
    sink = WatchedJobs(jobs, lambda _: None)
    sink.take(job_of("a", 3))
    sink.take(job_of("b", 4))
    sink.reached(9, "a")
    sink.retain(set(), 9, "a")
    assert [stored.key.namespace for stored in jobs.all()] == ["b"]
    jobs.put(job_of("b", 7))
    stored = jobs.get(Key("b", "fashion"))
    assert stored is not None
    assert stored.resource_version == 7
