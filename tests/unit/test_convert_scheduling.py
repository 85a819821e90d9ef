"""Gang scheduling and queues of a TFJob."""

from typing import Any

import pytest
from support.tfjobs import all_types, replica, tfjob

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


def test_queue_priority_size_and_timeout_are_kept() -> None:
    given = policy(minAvailable=3, queue="team-a", priorityClass="prod", scheduleTimeoutSeconds=60)
    assert converted(given)[0] == {
        "queue": "team-a",
        "priorityClassName": "prod",
        "minAvailable": 3,
        "timeoutSeconds": 60,
    }


def test_a_tfjob_without_a_scheduling_policy_says_nothing_about_scheduling() -> None:
    assert converted(tfjob())[0] is None
    assert converted(policy())[0] is None


def test_least_resources_are_what_the_pods_ask_for() -> None:
    made, notes = converted(policy(minResources={"cpu": "4"}))
    assert made is None
    assert "dropped" in notes["spec.runPolicy.schedulingPolicy.minResources"]


def test_an_evaluator_is_not_in_the_gang_so_the_least_size_shrinks_to_the_gangs() -> None:
    made, notes = converted(tfjob(all_types(), policy={"schedulingPolicy": {"minAvailable": 6}}))
    assert made == {"minAvailable": 5}
    assert "6 became 5" in notes["spec.runPolicy.schedulingPolicy.minAvailable"]


def test_no_time_to_wait_is_dropped_with_a_note() -> None:
    made, notes = converted(policy(scheduleTimeoutSeconds=0))
    assert made is None
    assert "dropped" in notes["spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds"]


@pytest.mark.parametrize("queue", [{}, {"queue": "other"}])
def test_the_label_that_names_kueues_queue_becomes_the_queue(queue: Json) -> None:
    given = policy(**queue)
    given["metadata"]["labels"] = {KUEUE: "team-a", "team": "a"}
    made, notes = converted(given)
    assert made == {"gang": "Kueue", "queue": "team-a"}
    assert convert(given).manifest["metadata"]["labels"] == {"team": "a"}
    assert f"metadata.labels['{KUEUE}']" in notes
    assert ("spec.runPolicy.schedulingPolicy.queue" in notes) is bool(queue)
