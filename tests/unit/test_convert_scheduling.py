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


def test_the_queue_is_left_out_with_a_note() -> None:
    made, notes = converted(policy(queue="team-a"))
    assert made is None
    text = notes["spec.runPolicy.schedulingPolicy.queue"]
    assert text.startswith("dropped: scheduling.queue is not supported by this version of TFDist")


def test_min_available_and_the_timeout_are_kept() -> None:
    made, notes = converted(policy(minAvailable=3, scheduleTimeoutSeconds=60))
    assert made == {"minAvailable": 3, "timeoutSeconds": 60}
    assert not [path for path in notes if "schedulingPolicy" in path]


@pytest.mark.parametrize(
    ("field", "value", "note"),
    [
        pytest.param("minAvailable", 4, None, id="all replicas: the default"),
        pytest.param("minAvailable", 10, "dropped: 10 is more than the 4 replicas", id="more than there are"),
        pytest.param("minAvailable", 0, "dropped: it is at least 1", id="none"),
        pytest.param("scheduleTimeoutSeconds", 0, "dropped: it is at least 1", id="no timeout"),
    ],
)
def test_a_value_that_means_the_default_or_nothing_is_left_out(field: str, value: int, note: str | None) -> None:
    made, notes = converted(policy(**{field: value}))
    assert made is None
    found = notes.get(f"spec.runPolicy.schedulingPolicy.{field}")
    assert found is None if note is None else found is not None and found.startswith(note)


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
