"""KAI Scheduler: the PodGroup of a gang in its queue, and pods that its pod grouper leaves alone."""

import re
from typing import Any

import pytest
from support.factories import manifest

from tfdist.desired.objects import objects
from tfdist.validation import ValidationFailed, parse


def rendered(**spec: Any) -> list[dict[str, Any]]:
    return objects(parse(manifest(worker={"replicas": 2}, **spec)), "trainer:1")


def of_kind(kind: str, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in made if each["kind"] == kind]


def test_a_gang_waits_as_a_pod_group_in_its_queue() -> None:
    scheduling = {"gang": "KAI", "queue": "team-a", "minAvailable": 1, "priorityClassName": "train"}
    (group,) = of_kind("PodGroup", rendered(scheduling=scheduling))
    assert group["apiVersion"] == "scheduling.run.ai/v2alpha2"
    assert group["spec"] == {"minMember": 1, "queue": "team-a", "priorityClassName": "train"}


def test_without_a_queue_it_is_the_default_one() -> None:
    (group,) = of_kind("PodGroup", rendered(scheduling={"gang": "KAI"}))
    assert group["spec"] == {"minMember": 2, "queue": "default-queue"}


def test_pods_name_their_group_and_keep_the_pod_grouper_away() -> None:
    made = rendered(scheduling={"gang": "KAI"})
    (group,) = of_kind("PodGroup", made)
    pods = of_kind("Pod", made)
    assert len(pods) == 2
    for pod in pods:
        assert pod["spec"]["schedulerName"] == "kai-scheduler"
        assert pod["metadata"]["annotations"].items() >= {
            ("pod-group-name", group["metadata"]["name"]),
            ("kai.scheduler/skip-podgrouper", "true"),
        }


def test_pods_that_name_another_scheduler_are_rejected() -> None:
    problem = "other contradicts scheduling.gang: KAI, whose scheduler is kai-scheduler"
    with pytest.raises(ValidationFailed, match=re.escape(problem)):
        parse(manifest(scheduling={"gang": "KAI"}, template={"spec": {"schedulerName": "other"}}))
