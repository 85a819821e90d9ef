"""The validator raises for no manifest, and every accepted manifest can be rendered."""

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.bad_manifests import BAD
from support.strategies import ANY_JSON, KEYS, PLACES, job, put, specs, spoiled_specs

from tfdist import podspec
from tfdist.desired.objects import objects
from tfdist.validation import FieldError, ValidationFailed, parse

FUZZ = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
SURROGATE = "\ud800"


def with_defaults(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest as the API server stores it."""
    stored: dict[str, Any] = json.loads(parse(manifest).model_dump_json(by_alias=True, exclude_none=True))
    return stored


def problems(manifest: Any) -> list[FieldError]:
    try:
        parse(manifest)
    except ValidationFailed as error:
        return error.problems
    return []


@FUZZ
@example({"[key]": None})  # pydantic's own mark of an error in a key
@given(st.dictionaries(st.sampled_from(["apiVersion", "kind", "metadata", "spec", "status"]) | KEYS, ANY_JSON))
def test_anything_is_valid_or_has_problems(manifest: dict[str, Any]) -> None:
    before = copy.deepcopy(manifest)
    assert all(p.path and p.message for p in problems(manifest))
    assert manifest == before


@FUZZ
@given(spoiled_specs(), ANY_JSON | st.none())
def test_a_spoiled_job_is_valid_or_has_problems_with_path_and_message(spec: dict[str, Any], labels: Any) -> None:
    manifest = job("fuzz", "team", spec)
    if labels is not None:
        manifest["metadata"]["labels"] = labels
    found = problems(manifest)
    assert all(p.path and len(p.message) > 5 for p in found)
    assert "\n" not in "".join(p.message for p in found), "a problem is a line"
    assert problems(manifest) == found


@FUZZ
@given(specs(), st.sampled_from(PLACES), st.sampled_from([SURROGATE, 10**400, {1: 2}, {None: 3}, b"x", {True: {}}]))
def test_a_value_that_json_does_not_have_is_a_problem_too(spec: dict[str, Any], place: Any, value: Any) -> None:
    put(spec, place[0], value)
    found = problems(job("fuzz", "team", spec))
    assert all(p.path and p.message for p in found)


@FUZZ
@given(specs() | spoiled_specs())
def test_a_valid_job_written_with_its_defaults_is_valid(spec: dict[str, Any]) -> None:
    manifest = job("fuzz", "team", spec)
    if problems(manifest):
        return
    stored = with_defaults(manifest)
    assert parse(stored) == parse(manifest)
    assert with_defaults(stored) == stored


@FUZZ
@given(specs() | spoiled_specs())
def test_the_pods_that_a_valid_job_renders_to_are_valid(spec: dict[str, Any]) -> None:
    manifest = job("fuzz", "team", spec)
    if problems(manifest):
        return
    spec.get("worker", {}).update(replicas=min(spec.get("worker", {}).get("replicas", 1), 3))
    parsed = parse(manifest)
    made = objects(parsed, "trainer:1")
    json.dumps(made)
    pods = [each for each in made if each["kind"] == "Pod"]
    assert pods
    assert [found for pod in pods[:2] for found in podspec.problems(pod["spec"], "PodSpec", "spec")] == []


@pytest.mark.parametrize("place", ["volumes", "training", "template"])
def test_a_manifest_deeper_than_any_stack_has_a_problem(place: str) -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep} if place != "volumes" else [deep]
    value = {"program": "a", "config": deep} if place == "training" else deep
    assert problems(job("fuzz", "team", {"training": {"program": "a"}, place: value})) != []


def test_half_of_the_random_jobs_are_valid() -> None:
    count = {True: 0, False: 0}

    @settings(max_examples=300, database=None)
    @given(specs())
    def tally(spec: dict[str, Any]) -> None:
        count[not problems(job("fuzz", "team", spec))] += 1

    tally()
    assert count[True] > 100
    assert count[False] > 20


@pytest.mark.timeout(60)
def test_a_huge_manifest_is_checked_in_bounded_time() -> None:
    text = "a-" * 500_000
    spec = {text: text, "image": text, "env": [{"name": text}] * 20_000, "checkpoint": {"directory": f"/{text}{{"}}
    assert all(len(p.message) < 1000 for p in problems(job("fuzz", "team", spec)))
    assert all(problems(bad.manifest) for bad in BAD)
