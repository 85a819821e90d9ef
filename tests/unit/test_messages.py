"""Messages agree with the number they name, and an unknown field is shown where it belongs."""

from typing import Any

import pytest
from support.factories import manifest, planned, stored

from tfdist.api.status import Progress
from tfdist.messages import count, suggest
from tfdist.planner.success_policy import training_text
from tfdist.validation import ValidationFailed, parse


@pytest.mark.parametrize(("number", "text"), [(0, "0 replicas"), (1, "1 replica"), (2, "2 replicas")])
def test_a_noun_agrees_with_its_number(number: int, text: str) -> None:
    assert count(number, "replica") == text


@pytest.mark.parametrize(
    ("replicas", "pods", "text"),
    [
        (1, "worker-0:R", "the only replica runs; worker-0 leads"),
        (2, "worker-0:R worker-1:R", "all 2 replicas run; worker-0 leads"),
    ],
)
def test_the_event_of_a_running_job_counts_its_replicas(replicas: int, pods: str, text: str) -> None:
    spec: dict[str, Any] = {"worker": {"replicas": replicas}}
    pending = stored(pods.replace(":R", ":P"), spec=spec)
    assert text in [event.message for event in planned(pods, pending, spec=spec).events]


@pytest.mark.parametrize(("steps", "text"), [(1, "after 1 step"), (2, "after 2 steps"), (None, "succeeded")])
def test_the_success_of_a_training_counts_its_steps(steps: int | None, text: str) -> None:
    assert training_text(Progress(step=steps)).endswith(text)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("training.runtime", "did you mean spec.runtime?"),
        ("backoffLimit", "did you mean spec.runPolicy.backoffLimit?"),
        ("everySteps", "did you mean spec.checkpoint.everySteps?"),
        ("program", "did you mean spec.training.program?"),
        ("runPolicy.env", "did you mean spec.env?"),
        ("repository", "did you mean spec.training.source.git.repository?"),
        ("replicas", "see `kubectl explain tfdistjob.spec`"),  # each role has the field
        ("tfReplicaSpecs", "see `kubectl explain tfdistjob.spec`"),
        ("onExitCodes", "see `kubectl explain tfdistjob.spec`"),  # of an item of a list
    ],
)
def test_an_unknown_field_that_exists_elsewhere_is_shown_there(path: str, advice: str) -> None:
    *parents, field = path.split(".")
    document = manifest()
    place = document["spec"]
    for parent in parents:
        place = place.setdefault(parent, {})
    place[field] = {}
    with pytest.raises(ValidationFailed) as failed:
        parse(document)
    assert f"spec.{path}: unknown field; {advice}" in str(failed.value)


@pytest.mark.parametrize(
    ("word", "field"), [("replicaz", "replicas"), ("replicaz" + "z" * 60, None), ("REPLICAS", "replicas")]
)
def test_a_name_that_is_longer_than_any_field_resembles_none(word: str, field: str | None) -> None:
    assert suggest(word, ["image", "replicas"]) == field
