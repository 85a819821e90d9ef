"""The cache of jobs: any stored object is read as a job or `Invalid`, and never raises an exception."""

import json
from typing import Any

import pytest
from support.factories import UID, manifest

from tfdist_operator.cache import job_cache
from tfdist_operator.cache.job_cache import CachedJob, JobCache
from tfdist_operator.kube.decode import decode
from tfdist_operator.kube.keys import NamespacedName

KEY = NamespacedName("team", "fashion")


def stored(spec: Any) -> CachedJob:
    raw = manifest() | {"spec": spec}
    raw["metadata"] |= {"uid": UID, "generation": 1, "resourceVersion": "5"}
    jobs = JobCache()
    jobs.upsert(raw)
    found = jobs.get(KEY)
    assert found is not None
    return found


def nested(levels: int) -> Any:
    """Return objects nested to the given number of levels."""
    content: Any = 1
    for _ in range(levels):
        content = {"a": content}
    return content


@pytest.mark.parametrize("spec", [None, 1, "text", [], {"worker": []}, {"runPolicy": 1}, {"template": 3}])
def test_a_specification_of_any_shape_is_invalid(spec: Any) -> None:
    found = stored(spec)
    assert found.job is None
    assert found.problems


@pytest.mark.parametrize("field", ["training", "template"])
def test_a_specification_nested_too_deep_is_invalid_with_that_message(field: str) -> None:
    content = {"program": "image_classification", "config": nested(1100)} if field == "training" else nested(1100)
    spec: dict[str, Any] = {field: content}
    (problem,) = stored(manifest(**spec)["spec"]).problems
    assert "nested deeper than 64 levels" in str(problem)


def test_a_specification_of_which_the_parser_leaves_out_the_depths_is_nested_too_deep() -> None:
    """Given a job of 1,100 levels as the API server sends it; then it is invalid, and its version is known."""
    job = manifest(training={"program": "image_classification", "config": "DEEP"})
    job["metadata"] |= {"uid": UID, "generation": 1, "resourceVersion": "5"}
    jobs = JobCache()
    jobs.upsert(decode(json.dumps(job).replace('"DEEP"', '{"a":' * 1100 + "1" + "}" * 1100).encode()))
    found = jobs.get(KEY)
    assert found is not None
    (problem,) = found.problems
    assert "nested deeper than 64 levels" in str(problem)
    assert found.resource_version == 5


@pytest.mark.parametrize("error", [RecursionError(), AttributeError("x"), ZeroDivisionError()])
def test_a_bug_in_validation_makes_one_job_invalid(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(job_cache, "parse", fails)
    (problem,) = stored(manifest()["spec"]).problems
    assert str(problem).startswith(f"spec: cannot be read: {type(error).__name__}")


def job(version: int, uid: str = UID, namespace: str = "team") -> dict[str, Any]:
    made = manifest(namespace=namespace)
    made["metadata"] |= {"uid": uid, "generation": 1, "resourceVersion": str(version)}
    return made


def versions(jobs: JobCache) -> dict[str, int]:
    return {found.uid: found.resource_version for found in jobs.all()}


def test_the_newest_version_of_a_job_wins() -> None:
    jobs = JobCache()
    for version in (3, 9, 5):
        jobs.upsert(job(version))
    assert versions(jobs) == {UID: 9}


@pytest.mark.parametrize(("counters_only", "reported"), [(False, [5, 8, 9]), (True, [5, 9])])
def test_the_event_of_an_own_write_is_reported_unless_the_write_changed_only_counters(
    counters_only: bool, reported: list[int]
) -> None:
    seen: list[int] = []
    jobs = JobCache(on_change=lambda _: seen.append(event))
    event = 5
    jobs.on_update(job(5))
    jobs.write_through(job(8), counters_only=counters_only)
    for event in (8, 9):
        jobs.on_update(job(event))
    assert seen == reported


def test_the_response_to_a_write_does_not_restore_a_job_whose_deletion_was_reported() -> None:
    jobs = JobCache()
    jobs.upsert(job(3))
    jobs.on_delete(job(9))
    jobs.upsert(job(8))
    assert versions(jobs) == {}


def test_the_deletion_of_a_job_does_not_remove_a_new_job_of_its_name() -> None:
    jobs = JobCache()
    jobs.upsert(job(3, "old"))
    jobs.upsert(job(12, "new"))
    jobs.on_delete(job(9, "old"))
    jobs.upsert(job(8, "old"))
    assert versions(jobs) == {"new": 12}


def test_a_job_that_a_404_has_removed_is_restored_by_a_newer_version_only() -> None:
    jobs = JobCache()
    jobs.upsert(job(5))
    known = jobs.get(KEY)
    assert known is not None
    jobs.evict(known)
    jobs.upsert(job(5))
    assert versions(jobs) == {}
    jobs.upsert(job(6))
    assert versions(jobs) == {UID: 6}


def test_deleted_jobs_are_remembered_for_ten_minutes() -> None:
    now = 0.0
    jobs = JobCache(clock=lambda: now)
    jobs.on_delete(job(9, "old"))
    now = 601.0
    jobs.on_delete(job(10, "other"))
    jobs.upsert(job(8, "old"))
    assert versions(jobs) == {"old": 8}, "no answer takes so long; the memory must not grow for ever"


def test_a_list_of_one_namespace_removes_only_its_own_jobs() -> None:
    changed: list[NamespacedName] = []
    jobs = JobCache(on_change=changed.append)
    jobs.on_update(job(3, "a", "a"))
    jobs.on_update(job(4, "b", "b"))
    jobs.on_update(job(11, "c", "c"))
    jobs.replace(set(), 9, "a")
    assert versions(jobs) == {"b": 4, "c": 11}
    jobs.replace({"b"}, 9)
    assert versions(jobs) == {"b": 4, "c": 11}, "the third is newer than the list"
    jobs.on_update(job(9, "a", "a"))
    assert "a" not in versions(jobs), "an answer that is late"
    assert changed[:4] == [
        NamespacedName("a", "fashion"),
        NamespacedName("b", "fashion"),
        NamespacedName("c", "fashion"),
        NamespacedName("a", "fashion"),
    ]
