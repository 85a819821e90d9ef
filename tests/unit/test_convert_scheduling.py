"""Gang scheduling and queues of a TFJob."""

from typing import Any

import pytest
from support.tfjobs import replica, tfjob

from tfdist.convert import convert
from tfdist.validation import parse

Json = dict[str, Any]

KUEUE = "kueue.x-k8s.io/queue-name"


def converted(given: Json) -> tuple[Json | None, dict[str, str]]:
    made = convert(given)
    parse(made.manifest)
    return made.manifest["spec"].get("scheduling"), {note.path: note.message for note in made.notes}


def policy(**fields: Any) -> Json:
    return tfjob({"Worker": replica(4)}, policy={"schedulingPolicy": fields})


def test_the_priority_is_kept() -> None:
    made, notes = converted(policy(priorityClass="prod"))
    assert made == {"priorityClassName": "prod"}
    assert not [path for path in notes if "schedulingPolicy" in path]


@pytest.mark.parametrize(
    ("field", "value", "becomes"),
    [
        ("queue", "team-a", "scheduling.queue"),
        ("minAvailable", 3, "scheduling.minAvailable"),
        ("scheduleTimeoutSeconds", 60, "scheduling.timeoutSeconds"),
        ("scheduleTimeoutSeconds", 0, "scheduling.timeoutSeconds"),
    ],
)
def test_a_field_that_this_version_does_not_support_is_left_out_with_a_note(
    field: str, value: Any, becomes: str
) -> None:
    made, notes = converted(policy(**{field: value}))
    assert made is None
    text = notes[f"spec.runPolicy.schedulingPolicy.{field}"]
    assert text.startswith(f"dropped: {becomes} is not supported by this version of TFDist")


def test_a_tfjob_without_a_scheduling_policy_has_no_note_on_scheduling() -> None:
    assert converted(tfjob())[0] is None
    assert converted(policy())[0] is None


def test_least_resources_are_what_the_pods_ask_for() -> None:
    made, notes = converted(policy(minResources={"cpu": "4"}))
    assert made is None
    assert "dropped" in notes["spec.runPolicy.schedulingPolicy.minResources"]


def test_the_label_of_kueues_queue_is_kept_with_a_note_that_the_job_is_not_queued() -> None:
    given = policy()
    given["metadata"]["labels"] = {KUEUE: "team-a", "team": "a"}
    made, notes = converted(given)
    assert made is None
    assert convert(given).manifest["metadata"]["labels"] == {KUEUE: "team-a", "team": "a"}
    assert "the job is not queued" in notes[f"metadata.labels['{KUEUE}']"]
