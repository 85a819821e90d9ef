"""No field of the TFJob API is dropped silently: each changes the converted job or has a note."""

from typing import Any

import pytest
from support.tfjob_examples import fields
from support.tfjobs import replica, tfjob

from tfdist.convert import convert

Json = dict[str, Any]

POLICY = "runPolicy.schedulingPolicy"
TYPE = "tfReplicaSpecs.*"

SET: dict[str, Json] = {
    "enableDynamicWorker": tfjob(enableDynamicWorker=True),
    "runPolicy": tfjob(policy={"cleanPodPolicy": "All"}),
    "runPolicy.activeDeadlineSeconds": tfjob(policy={"activeDeadlineSeconds": 5}),
    "runPolicy.backoffLimit": tfjob(policy={"backoffLimit": 5}),
    "runPolicy.cleanPodPolicy": tfjob(policy={"cleanPodPolicy": "All"}),
    "runPolicy.managedBy": tfjob(policy={"managedBy": "kubeflow.org/training-operator"}),
    POLICY: tfjob(policy={"schedulingPolicy": {"priorityClass": "a"}}),
    f"{POLICY}.minAvailable": tfjob(policy={"schedulingPolicy": {"minAvailable": 1}}),
    f"{POLICY}.minResources": tfjob(policy={"schedulingPolicy": {"minResources": {"cpu": "1"}}}),
    f"{POLICY}.priorityClass": tfjob(policy={"schedulingPolicy": {"priorityClass": "a"}}),
    f"{POLICY}.queue": tfjob(policy={"schedulingPolicy": {"queue": "a"}}),
    f"{POLICY}.scheduleTimeoutSeconds": tfjob(policy={"schedulingPolicy": {"scheduleTimeoutSeconds": 5}}),
    "runPolicy.suspend": tfjob(policy={"suspend": True}),
    "runPolicy.ttlSecondsAfterFinished": tfjob(policy={"ttlSecondsAfterFinished": 5}),
    "successPolicy": tfjob(successPolicy="AllWorkers"),
    "tfReplicaSpecs": tfjob({"Chief": replica()}),
    f"{TYPE}.replicas": tfjob({"Worker": replica(5)}),
    f"{TYPE}.restartPolicy": tfjob({"Worker": replica(2, restart_policy="OnFailure")}),
    f"{TYPE}.template": tfjob({"Worker": replica(2, command=["train"])}),
}
"""For each field of the API, a TFJob that differs from the plain one in that field."""


def test_these_are_the_fields_of_the_training_operators_api() -> None:
    assert set(SET) == fields()


@pytest.mark.parametrize("field", SET)
def test_a_field_changes_the_job_or_has_a_note(field: str) -> None:
    plain, made = convert(tfjob()), convert(SET[field])
    path = f"spec.{field.replace('*', 'Worker')}"
    assert made.manifest != plain.manifest or path in {note.path for note in made.notes}
