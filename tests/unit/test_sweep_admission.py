"""The admission webhook for sweeps: its rejections and warnings, and which reviews kopf gives to it."""

from typing import Any

import pytest
from support.factories import manifest
from support.kopf_server import watching
from support.sweeps import sweep_manifest

from tfdist.validation import ValidationFailed
from tfdist.validation.sweep import parse_sweep
from tfdist_operator.webhook.admission import Review, review


def test_a_valid_sweep_is_admitted_without_a_warning() -> None:
    assert review(sweep_manifest(), None, {}) == Review()


def test_an_invalid_sweep_is_rejected_with_the_messages_of_tfdist_validate() -> None:
    sweep = sweep_manifest(parallelism=0, template={"wroker": {}})
    with pytest.raises(ValidationFailed) as caught:
        parse_sweep(sweep)
    assert review(sweep, None, {}).problems == tuple(map(str, caught.value.problems))


def test_a_probably_unintended_goal_of_a_sweep_is_a_warning() -> None:
    (warning,) = review(sweep_manifest(metric="loss"), None, {}).warnings
    assert warning.startswith("spec.goal: a larger loss counts as better")


def test_a_change_of_a_sweep_is_rejected_for_what_it_adds() -> None:
    # given a stored sweep that has become invalid
    stored = sweep_manifest(template={"wroker": {}})
    # then it can be suspended, with a warning, and no other error is added
    assert review(sweep_manifest(template={"wroker": {}}, suspend=True), stored, {}).problems == ()
    found = review(sweep_manifest(template={"wroker": {}}, parallelism=0), stored, {})
    assert [problem.partition(":")[0] for problem in found.problems] == ["spec.parallelism"]
    assert [warning.partition(":")[0] for warning in found.warnings] == ["spec.template.spec.wroker"]


@pytest.mark.parametrize("spec", [None, 1, [], {"parameters": 3}])
def test_a_sweep_of_any_shape_is_answered(spec: Any) -> None:
    assert review(sweep_manifest() | {"spec": spec}, None, {}).problems


def request_of(made: dict[str, Any], version: str, resource: str) -> dict[str, Any]:
    """Return the review of a creation, as the API server sends it."""
    asked = {
        "uid": "u",
        "resource": {"group": "tfdist.dev", "version": version, "resource": resource},
        "operation": "CREATE",
        "userInfo": {},
        "object": made,
        "oldObject": None,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}


async def test_kopf_reviews_jobs_and_sweeps_by_their_resource_whatever_the_path_of_the_webhook() -> None:
    async with watching(webhook=True) as kopf:
        await kopf.until(kopf.admission.done)
        ask = kopf.admission.result()
        for valid, version, resource in (
            (manifest(), "v1", "tfdistjobs"),
            (sweep_manifest(), "v1alpha1", "tfdistsweeps"),
        ):
            wrong = valid | {"spec": valid["spec"] | {"wrong": 1}}
            answer = (await ask(request_of(valid, version, resource), headers={}))["response"]
            assert (answer["allowed"], answer.get("warnings")) == (True, None)
            answer = (await ask(request_of(wrong, version, resource), headers={}))["response"]
            assert (answer["allowed"], answer["status"]["code"]) == (False, 422)
            assert "spec.wrong: unknown field" in answer["status"]["message"]
