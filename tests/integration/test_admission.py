"""What the API server itself refuses, with a message that names the field."""

from typing import Any

import pytest
from support.api import JOBS, Api
from support.factories import manifest

pytestmark = pytest.mark.integration

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a typo in a field": ({"wroker": {}}, 'unknown field "spec.wroker"'),
    "an unknown strategy": ({"strategy": "Mirored"}, "spec.strategy: Unsupported value"),
    "no worker": ({"worker": {"replicas": 0}}, "spec.worker.replicas"),
    "an empty image": ({"image": ""}, "spec.image"),
    "an own TF_CONFIG": ({"env": [{"name": "TF_CONFIG", "value": ""}]}, "TF_CONFIG and TFDIST_JOB are generated"),
    "nothing to run": ({"training": None}, "nothing to run: set training.program"),
    "evaluation of nothing": ({"evaluation": {"mode": "AfterTraining"}}, "set checkpoint.directory"),
    "one device, two workers": ({"strategy": "OneDevice"}, "strategy OneDevice runs one replica"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_refused_at_apply_time(api: Api, namespace: str, name: str) -> None:
    changes, message = REFUSED[name]
    bad = manifest("bad", namespace, **changes)
    bad["spec"] = {k: v for k, v in bad["spec"].items() if v is not None}
    answer = api.send("POST", JOBS.format(ns=namespace), bad, fieldValidation="Strict")
    assert answer.status_code in {400, 422}, answer.text
    assert message in answer.json()["message"]


def test_a_name_too_long_for_its_pods_is_refused(api: Api, namespace: str) -> None:
    answer = api.send("POST", JOBS.format(ns=namespace), manifest("x" * 46, namespace))
    assert answer.status_code == 422
    assert "at most 45 characters" in answer.json()["message"]


def test_the_strategy_cannot_be_changed(api: Api, namespace: str) -> None:
    api.create_job(manifest("fixed", namespace, worker={"replicas": 1}))
    change = {"spec": {"strategy": "OneDevice"}}
    answer = api.send("PATCH", f"{JOBS.format(ns=namespace)}/fixed", change, "merge-patch")
    assert answer.status_code == 422
    assert "strategy cannot change" in answer.json()["message"]
