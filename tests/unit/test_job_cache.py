"""The cache of jobs: any stored object is read as a job or `Invalid`, and never raises an exception."""

import json
from typing import Any

import pytest
from support.factories import UID, manifest

from tfdist_operator.cache import specifications
from tfdist_operator.cache.job_cache import CachedJob, JobCache
from tfdist_operator.kube.json_bodies import decode
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

    monkeypatch.setattr(specifications, "parse", fails)
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


@pytest.mark.parametrize(("settled", "reported"), [(False, [5, 8, 9]), (True, [5, 9])])
def test_the_event_of_an_own_write_is_reported_unless_nothing_follows_from_it(
    settled: bool, reported: list[int]
) -> None:
    seen: list[int] = []
    jobs = JobCache(on_change=lambda _: seen.append(event))
    event = 5
    jobs.on_update(job(5))
    jobs.write_through(job(8), settled=settled)
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


def large(size: int, version: int = 5, generation: int = 1, **spec: Any) -> dict[str, Any]:
    """Return a valid job with a specification of about `size` bytes."""
    made = manifest(env=[{"name": f"V{n}", "value": "x" * 1000} for n in range(size // 1030)], **spec)
    made["metadata"] |= {"uid": UID, "generation": generation, "resourceVersion": str(version)}
    return made


def test_a_large_specification_is_kept_as_json_and_read_when_it_is_planned() -> None:
    jobs = JobCache()
    jobs.on_update(large(50_000))
    (cached,) = jobs.all()
    assert (cached.job, len(cached.large) > 49_000) == (None, True)
    read = jobs.read(cached)
    assert (read.job is not None, read.problems, read.large) == (True, (), b"")
    assert jobs.read(cached).job is read.job, "what was read last is kept"
    assert jobs.all() == [cached]


def test_the_errors_of_a_large_specification_are_found_when_it_is_read() -> None:
    jobs = JobCache()
    jobs.on_update(large(50_000, checkpoint={"directory": "relative", "every": 3}))
    (cached,) = jobs.all()
    read = jobs.read(cached)
    assert read.job is None
    assert read.partial is not None
    assert any("checkpoint" in str(problem) for problem in read.problems)


def test_labels_and_suspension_of_a_large_job_are_those_of_its_newest_version() -> None:
    jobs = JobCache()
    jobs.on_update(large(50_000))
    labelled = large(50_000, version=6, runPolicy={"suspend": True}, generation=2)
    labelled["metadata"]["labels"] = {"team": "vision"}
    jobs.on_update(labelled)
    (cached,) = jobs.all()
    read = jobs.read(cached).job
    assert cached.suspended
    assert read is not None
    assert read.metadata.labels == {"team": "vision"}


def test_the_earlier_large_specification_of_running_pods_is_kept() -> None:
    jobs = JobCache()
    jobs.on_update(large(50_000))
    changed = large(60_000, version=6, generation=2) | {"status": {"gangs": {"training": {"generation": 1}}}}
    jobs.on_update(changed)
    (cached,) = jobs.all()
    older = jobs.read(cached).older
    assert len(older[1].spec.env or ()) == 48
    small = manifest() | {"status": changed["status"]}
    small["metadata"] |= {"uid": UID, "generation": 3, "resourceVersion": "7"}
    jobs.on_update(small)
    assert [*jobs.read(jobs.all()[0]).older] == [1]


def test_a_specification_above_the_limit_is_invalid_and_not_kept() -> None:
    jobs = JobCache()
    jobs.on_update(large(300_000, runPolicy={"managedBy": "example.com/other"}))
    (cached,) = jobs.all()
    (problem,) = cached.problems
    assert str(problem).startswith("spec: Too large: must have at most 262144 bytes as JSON")
    assert (cached.large, cached.managed_by) == (b"", "example.com/other")


def test_the_directories_of_a_large_job_are_known_once_it_was_read() -> None:
    jobs = JobCache()
    jobs.on_update(large(50_000, checkpoint={"directory": "s3://bucket/run"}))
    (cached,) = jobs.all()
    assert jobs.unlocated_jobs("team") == [cached]
    jobs.locate(jobs.read(cached))
    assert jobs.unlocated_jobs("team") == []
    (written,) = jobs.all()[0].written
    assert written.directory == "s3://bucket/run"


def test_no_location_of_a_deleted_or_changed_job_is_kept() -> None:
    jobs = JobCache()
    for generation in range(1, 100):
        made = manifest(checkpoint={"directory": f"s3://bucket/{generation}"})
        made["metadata"] |= {"uid": UID, "generation": generation, "resourceVersion": str(generation)}
        jobs.on_update(made)
    assert len(jobs.directories) == 1
    jobs.on_delete(made)
    assert len(jobs.directories) == 0


def test_jobs_that_wait_for_a_directory_are_reported_when_it_is_free() -> None:
    """Given three jobs of one directory; when the one that runs ends, then the other two are reconciled."""
    changed: list[str] = []
    jobs = JobCache(on_change=lambda key: changed.append(key.name))

    def update(name: str, version: int, **status: Any) -> None:
        made = manifest(checkpoint={"directory": "s3://bucket/run"}) | {"status": status}
        made["metadata"] |= {"name": name, "uid": name, "generation": 1, "resourceVersion": str(version)}
        jobs.on_update(made)

    begun = {"gangs": {"training": {"attempt": 0}}}
    update("a", 1, **begun, phase="Running")
    update("b", 2)
    update("c", 3)
    changed.clear()
    update("a", 4, **begun, phase="Running", restarts=1)
    assert changed == ["a"]
    update("a", 5, **begun, phase="Succeeded")
    assert set(changed[1:]) == {"a", "b", "c"}


def test_many_jobs_of_one_directory_are_reported_only_when_another_one_comes_first() -> None:
    """Given a thousand jobs that wait for one directory; then their own changes report none of the others."""
    changed: list[str] = []
    jobs = JobCache(on_change=lambda key: changed.append(key.name))
    for number in range(1000):
        made = manifest(checkpoint={"directory": "s3://bucket/run"})
        made["metadata"] |= {"name": f"j{number:04}", "uid": f"{number:04}", "generation": 1, "resourceVersion": "1"}
        jobs.on_update(made | {"status": {"phase": "Pending"}})
        made["metadata"] |= {"resourceVersion": "2"}
        jobs.on_update(made | {"status": {"phase": "Starting"}})
    assert len(changed) <= 2 * 1000 + 2


@pytest.mark.parametrize("size", [1, 40_000])
def test_earlier_specifications_with_programs_of_the_installation_are_restored_by_a_new_leader(size: int) -> None:
    """Given an image with other programs than the bundled ones; then the status of its jobs restores what pods run."""
    spec = {"worker": {"replicas": 2}, "training": {"program": "our_program", "config": {"x": "x" * size}}}
    made = manifest() | {"spec": spec | {"env": [{"name": "A", "value": "b"}]}}
    made["metadata"] |= {"uid": UID, "generation": 2, "resourceVersion": "6"}
    status = {"gangs": {"training": {"attempt": 0, "generation": 1}}, "specifications": {"1": json.dumps(spec)}}
    jobs = JobCache(check_programs=False)
    jobs.on_update(made | {"status": status})
    assert [*jobs.read(jobs.all()[0]).older] == [1]
