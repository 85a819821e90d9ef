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


def scheduled_by(*names: str, **fields: Any) -> Json:
    """Return a TFJob whose replica types name these schedulers; "" names none."""
    made = [replica(1, {"schedulerName": name} if name else {}) for name in names]
    types = dict(zip(("Chief", "Worker"), made, strict=False))
    return tfjob(types, policy={"schedulingPolicy": fields})


def test_a_policy_becomes_a_gang_of_volcano_with_a_note_on_other_schedulers() -> None:
    fields = {"queue": "team-a", "minAvailable": 3, "scheduleTimeoutSeconds": 60, "priorityClass": "prod"}
    made, notes = converted(policy(**fields))
    assert made == {
        "gang": "Volcano",
        "queue": "team-a",
        "priorityClassName": "prod",
        "minAvailable": 3,
        "timeoutSeconds": 60,
    }
    found = {path: text for path, text in notes.items() if "schedulingPolicy" in path}
    assert list(found) == ["spec.runPolicy.schedulingPolicy"]
    assert "write Coscheduling if" in found["spec.runPolicy.schedulingPolicy"]


@pytest.mark.parametrize(
    ("names", "gang"),
    [
        pytest.param(["volcano"], "Volcano", id="Volcano"),
        pytest.param(["kai-scheduler"], "KAI", id="KAI"),
        pytest.param(["volcano", ""], "Volcano", id="Volcano for one type"),
        pytest.param(["scheduler-plugins-scheduler"], "Coscheduling", id="scheduler-plugins"),
        pytest.param(["volcano", "default-scheduler"], None, id="two schedulers"),
        pytest.param(["koord-scheduler"], None, id="a scheduler that TFDist does not know"),
    ],
)
def test_the_scheduler_of_the_pods_becomes_the_gang_scheduler(names: list[str], gang: str | None) -> None:
    made, notes = converted(scheduled_by(*names))
    assert made == ({"gang": gang} if gang else None)
    assert any("TFDist creates no PodGroup" in text for text in notes.values()) is (gang is None)


@pytest.mark.parametrize("name", ["scheduler-plugins-scheduler", "koord-scheduler"])
def test_a_queue_is_left_out_with_a_note_where_the_scheduler_has_none(name: str) -> None:
    made, notes = converted(scheduled_by(name, queue="team-a"))
    assert "queue" not in (made or {})
    assert notes["spec.runPolicy.schedulingPolicy.queue"].startswith("dropped: the scheduler that the pods name")


def test_labels_of_an_own_pod_group_are_noted_in_a_gang() -> None:
    given = scheduled_by("volcano")
    given["spec"]["tfReplicaSpecs"]["Chief"]["template"]["metadata"] = {
        "annotations": {"scheduling.k8s.io/group-name": "mine"}
    }
    _, notes = converted(given)
    assert any("the pods belong to the PodGroup that TFDist creates" in text for text in notes.values())


@pytest.mark.parametrize(
    ("field", "value", "note"),
    [
        pytest.param("minAvailable", 10, "dropped: 10 is more than the 4 replicas", id="more than there are"),
        pytest.param("minAvailable", 0, "dropped: it is at least 1", id="none"),
        pytest.param("scheduleTimeoutSeconds", 0, "dropped: it is at least 1", id="no timeout"),
    ],
)
def test_a_value_that_means_the_default_or_nothing_is_left_out(field: str, value: int, note: str) -> None:
    made, notes = converted(policy(**{field: value}))
    assert made is None
    assert notes[f"spec.runPolicy.schedulingPolicy.{field}"].startswith(note)


def test_a_tfjob_without_a_scheduling_policy_has_no_note_on_scheduling() -> None:
    assert converted(tfjob())[0] is None
    assert converted(policy())[0] is None


def test_least_resources_are_what_the_pods_ask_for() -> None:
    made, notes = converted(policy(minResources={"cpu": "4"}, minAvailable=4))
    assert made == {"gang": "Volcano"}
    assert "dropped" in notes["spec.runPolicy.schedulingPolicy.minResources"]


def test_the_label_of_kueues_queue_is_kept_and_needs_no_note() -> None:
    given = policy()
    given["metadata"]["labels"] = {KUEUE: "team-a", "team": "a"}
    made, notes = converted(given)
    assert made is None
    assert convert(given).manifest["metadata"]["labels"] == {KUEUE: "team-a", "team": "a"}
    assert not [path for path in notes if KUEUE in path]
