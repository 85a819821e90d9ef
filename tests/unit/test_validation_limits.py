"""The size, the number of errors and the cost of validation are bounded, whatever the manifest has."""

import json
from typing import Any

import pytest
from support.factories import manifest
from support.sweeps import sweep_manifest

from tfdist.api.base import MAX_OPEN_FIELDS
from tfdist.validation import FieldError, ValidationFailed, parse, warnings
from tfdist.validation.errors import MAX_PROBLEMS
from tfdist.validation.partial import partial_job
from tfdist.validation.structure import MAX_SPEC_BYTES, bounded
from tfdist.validation.sweep import parse_sweep

TOO_LARGE = "Too large: must have at most 262144 bytes as JSON; move code to training.source"


def problems(bad: Any, **options: Any) -> list[FieldError]:
    parse_kind = parse_sweep if bad["kind"] == "TFDistSweep" else parse
    with pytest.raises(ValidationFailed) as caught:
        parse_kind(bad, **options)
    return caught.value.problems


def compact(spec: Any) -> bytes:
    return json.dumps(spec, ensure_ascii=False, separators=(",", ":")).encode()


def oversized(**spec: Any) -> dict[str, Any]:
    return manifest(template={"spec": {"nodeName": "x" * MAX_SPEC_BYTES}}, **spec)


def test_a_specification_above_the_limit_has_this_error_only() -> None:
    (problem,) = problems(oversized(unknown=1))
    assert problem.path == "spec"
    assert problem.message.startswith(TOO_LARGE)


def test_the_limit_is_in_bytes_of_compact_json() -> None:
    job = manifest(image="x" * 1000)
    job["spec"]["workingDir"] = "é" * 1000
    size = len(compact(job["spec"]))
    assert parse(job, max_bytes=size)
    assert [problem.path for problem in problems(job, max_bytes=size - 1)] == ["spec"]


def test_the_specification_of_a_sweep_has_the_same_limit() -> None:
    (problem,) = problems(sweep_manifest(template={"workingDir": "x" * MAX_SPEC_BYTES}))
    assert (problem.path, problem.message[: len(TOO_LARGE)]) == ("spec", TOO_LARGE)


@pytest.mark.parametrize("value", ["\ud800" * MAX_SPEC_BYTES, ["\ud800", "x" * MAX_SPEC_BYTES]])
def test_a_value_that_is_not_json_is_no_way_around_the_limit(value: Any) -> None:
    assert problems(manifest(workingDir=value))[0].message.startswith(TOO_LARGE)


def test_the_error_is_the_same_for_every_size_so_that_an_oversized_job_can_be_suspended() -> None:
    assert problems(oversized()) == problems(oversized(runPolicy={"suspend": True}))


def test_a_small_manifest_is_bounded_already() -> None:
    job = manifest()
    assert bounded(job) is job


@pytest.mark.parametrize("spec", ["x" * MAX_SPEC_BYTES, oversized()["spec"]])
def test_a_specification_that_was_not_kept_has_the_same_error(spec: Any) -> None:
    job = bounded(manifest() | {"spec": spec})
    assert problems(job) == problems(oversized())
    assert bounded(job) is job


def test_of_a_specification_that_was_not_kept_no_json_can_be_written() -> None:
    with pytest.raises(TypeError):
        json.dumps(bounded(oversized())["spec"])


@pytest.mark.parametrize("kept", [True, False])
def test_the_policies_of_an_oversized_specification_apply_to_the_running_job(kept: bool) -> None:
    """Given a running job of which an edit made the template too large; then its limits are the new ones."""
    job = oversized(runPolicy={"suspend": True, "activeDeadlineSeconds": 60, "backoffLimit": "x"}, task="Train")
    job["metadata"]["uid"] = "u"
    job = job if kept else dict(bounded(job))
    spec = partial_job(job, problems(job), {"worker": 3}).spec
    assert (spec.run_policy.suspend, spec.run_policy.active_deadline_seconds, spec.run_policy.backoff_limit) == (
        True,
        60,
        3,
    )
    assert spec.worker is not None
    assert spec.worker.replicas == 3
    assert spec.template is None


def test_a_policy_that_is_itself_large_is_not_kept() -> None:
    job = bounded(oversized(runPolicy={"suspend": True}, failurePolicy={"rules": ["x" * 5000]}))
    assert dict(job["spec"]) == {"runPolicy": {"suspend": True}}


def unknown_fields(count: int) -> dict[str, Any]:
    return manifest(image="x", template={"spec": {f"no{i}": 1 for i in range(count)}})


def test_a_hundred_errors_are_all_reported() -> None:
    assert len(problems(unknown_fields(MAX_PROBLEMS))) == MAX_PROBLEMS


@pytest.mark.parametrize(
    ("count", "text"),
    [(101, "and 1 more error"), (122, "and 22 more errors"), (20000, "and more than 900 other errors")],
)
def test_of_more_errors_the_first_hundred_are_reported_and_how_many_more_there_are(count: int, text: str) -> None:
    found = problems(unknown_fields(count))
    assert [problem.path for problem in found[:-1]] == [f"spec.template.spec.no{i}" for i in range(MAX_PROBLEMS)]
    assert str(found[-1]) == f"spec: {text}"


MANY = range(5000)
FLOODS: dict[str, dict[str, Any]] = {
    "unknown fields of the pod": unknown_fields(len(MANY)),
    "malformed labels": manifest(template={"metadata": {"labels": {f"-{i}": "v" for i in MANY}}}),
    "nulls": manifest(template={"spec": {"tolerations": [None for _ in MANY]}}),
    "duplicate variables": manifest(template={"spec": {"containers": [{"name": "a", "env": [{"name": "A"}] * 5000}]}}),
    "unknown fields of a program": manifest(
        training={"program": "image_classification", "config": {f"no{i}": 1 for i in range(1010)}}
    ),
    "items of a list of a program": manifest(
        training={"program": "text_classification", "config": {"data": {"train": [f"x://{i}" for i in MANY]}}}
    ),
    "unknown volumes": manifest(
        image="x",
        template={
            "spec": {
                "containers": [
                    {"name": "tensorflow", "volumeMounts": [{"name": f"v{i}", "mountPath": f"/{i}"} for i in MANY]}
                ]
            }
        },
    ),
    "nulls of a sweep": sweep_manifest(parameters=[None for _ in MANY]),
    "unknown fields of a sweep's template": sweep_manifest(template=unknown_fields(len(MANY))["spec"]),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_errors_is_cut(name: str) -> None:
    found = problems(FLOODS[name])
    assert len(found) == MAX_PROBLEMS + 1
    assert found[-1].message == "and more than 900 other errors"


def test_an_object_that_keeps_unknown_fields_has_a_limited_number_of_them() -> None:
    config = {f"a{i}": 1 for i in range(MAX_OPEN_FIELDS + 1)}
    (problem,) = problems(manifest(training={"program": "package.module:Class", "config": config}))
    assert str(problem) == "spec.training.config: Too many: 1025: must have at most 1024 items"


def test_errors_of_policies_are_not_cut_off_by_those_of_a_template() -> None:
    job = unknown_fields(2000)
    job["spec"] |= {"evaluation": {"mode": "AfterTraining"}}
    assert "spec.evaluation.mode" in {problem.path for problem in problems(job)}


def test_no_error_is_longer_than_its_reader_can_use() -> None:
    """Given long keys, values and names, and many of them in one message."""
    nested: Any = 1
    for _ in range(50):
        nested = {"x" * 300: nested}
    long = [{"name": f"{'c' * 240}{i}"} for i in range(64)]
    spec = {"nodeSelector": {"x" * 100_000: 1}, "containers": long, "y" * 100_000: "z" * 1000, "affinity": nested}
    found = problems(manifest(without=["training"], template={"spec": spec}))
    found += problems(manifest(without=["training"], template={"spec": {"containers": long}}))
    assert max(len(str(problem)) for problem in found) < 1000
    assert any("rename cccc" in problem.message and "and 52 more" in problem.message for problem in found)


def test_warnings_are_cut_too() -> None:
    probe = {"httpGet": {"port": "no"}}
    containers = [{"name": f"c{i}", "image": "x", "startupProbe": probe, "livenessProbe": probe} for i in range(63)]
    found = warnings(parse(manifest(template={"spec": {"containers": containers}})))
    assert len(found) == MAX_PROBLEMS + 1
    assert str(found[-1]) == "spec: and 26 more warnings"
