"""A controller of several namespaces: each has watches of its own, which do not affect the others."""

from support.factories import UID
from support.raw import raw_pod as pod

from tfdist.observed.pod import PodSummary
from tfdist_operator.cache.informer import WatchedResource
from tfdist_operator.cache.pod_cache import PodCache
from tfdist_operator.kube.keys import NamespacedName


def pod_of(namespace: str, version: int) -> dict[str, object]:
    made = pod(version)
    return made | {"metadata": made["metadata"] | {"namespace": namespace}}


def pods_of(store: PodCache, namespace: str) -> tuple[PodSummary, ...]:
    return store.job_pods(NamespacedName(namespace, "fashion"), UID)


def test_a_namespace_s_path_is_that_of_its_own_collection() -> None:
    assert WatchedResource.for_kind("api/v1", "pods", "a").path == "/api/v1/namespaces/a/pods"
    assert WatchedResource.for_kind("api/v1", "pods", "").path == "/api/v1/pods"


def test_a_list_of_one_namespace_removes_no_pod_of_another() -> None:
    store = PodCache(lambda _: None)
    store.on_update(pod_of("a", 3))
    store.on_update(pod_of("b", 4))
    store.replace(set(), 9, "a")
    assert not pods_of(store, "a")
    assert pods_of(store, "b")


def test_a_created_pod_is_known_though_the_watch_of_another_namespace_is_further() -> None:
    store = PodCache(lambda _: None)
    store.on_bookmark(9, "a")
    store.on_bookmark(5, "b")
    store.upsert(pod_of("b", 7))
    store.upsert(pod_of("a", 8))
    assert pods_of(store, "b")
    assert not pods_of(store, "a"), "its own watch has passed that version: the pod is gone since"
