"""The value that a function returns: from the script that calls it, by the termination message and the status."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any, cast

import pytest
from support.factories import Lifecycle, manifest, pod
from support.job_functions import cell, unpacked

from tfdist.client.api_server import ApiServer
from tfdist.client.cluster import Cluster
from tfdist.client.errors import NotPossible
from tfdist.client.job import Job
from tfdist.client.job_handle import JOBS, JobHandle
from tfdist.client.resources import Resources
from tfdist.contract import FUNCTION_SCRIPT, JOB_ENV, RETURNED_VALUE_BYTES, TERMINATION_LOG_ENV

TENSOR = (
    "class Tensor:\n        def numpy(self): return self\n        def tolist(self): return [1, 2]\n    return Tensor()"
)


def message_of(body: str, folder: pathlib.Path) -> str:
    """Return the termination message of a function with this body, in an image without tfdist and the trainer."""
    train = cell(f"@tfdist.job\ndef train():\n    {body}\n")
    _, archive = train.prepare()
    script, log = unpacked(archive, folder) / FUNCTION_SCRIPT, folder / "message"
    environment = os.environ | {JOB_ENV: "{}", TERMINATION_LOG_ENV: str(log)}
    subprocess.run([sys.executable, "-S", "-I", str(script)], env=environment, check=True, capture_output=True)
    return log.read_text()


def status_of(text: str) -> dict[str, Any]:
    """Return the status of a job whose worker 0 has ended with a termination message, after its pods are deleted."""
    job = Lifecycle("worker-0:R worker-1:R", training={"script": "/tfdist_call.py"})
    job.reconcile([pod("worker-0", "S", message=text), pod("worker-1", "S", message="of another worker")])
    job.reconcile([])
    return job.status


def handle(status: dict[str, Any], script: str = FUNCTION_SCRIPT) -> JobHandle:
    stored = manifest("fashion", training={"script": script})
    stored["metadata"]["generation"] = status["observedGeneration"] = 1
    job = Job(stored | {"status": status})

    class Ended(Resources[Job, JobHandle]):
        def watch(self, name: str, **_: float | None) -> Any:
            assert name == "fashion"
            yield job

    return Ended(Cluster(cast("ApiServer", None), "team"), "team", JOBS).handle(job)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("return {'loss': 0.5, 'per epoch': [1, 2.5], 'name': 'ü'}", {"loss": 0.5, "per epoch": [1, 2.5], "name": "ü"}),
        ("return None", None),
        ("pass", None),
        ("return (1, True)", [1, True]),
        (TENSOR, [1, 2]),
        (f"return 'x' * {RETURNED_VALUE_BYTES - 6}", "x" * (RETURNED_VALUE_BYTES - 6)),
    ],
    ids=["a dictionary", "None", "nothing", "a tuple", "a tensor", "the longest"],
)
def test_a_function_returns_its_value_to_the_handle_of_its_job(body: str, value: Any, tmp_path: pathlib.Path) -> None:
    text = message_of(body, tmp_path)

    assert len(text.encode()) <= 4096, "the kubelet keeps no more"
    assert handle(status_of(text)).result() == value


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return object()", r"train returned a value that cannot be stored in the status \(a object is not JSON\): "),
        ("return {'loss': float('nan')}", r"Out of range float values are not JSON compliant"),
        ("a = []; a.append(a); return a", "Circular reference detected"),
        (f"return 'x' * {RETURNED_VALUE_BYTES - 5}", "train returned 3,001 bytes of JSON, and 3,000 fit"),
        ("return '\"' * 1000", "train returned 4,006 bytes of JSON"),
    ],
    ids=["an object", "not a number", "a circle", "too long", "too long when it is quoted"],
)
def test_a_value_that_cannot_be_stored_is_an_error_that_names_where_to_put_it(
    body: str, problem: str, tmp_path: pathlib.Path
) -> None:
    status = status_of(message_of(body, tmp_path))

    assert status["phase"] == "Succeeded", "what was trained is not lost"
    with pytest.raises(NotPossible, match=rf'^job "fashion" has no result: .*{problem}[^\n]*$') as error:
        handle(status).result()
    assert "spec.checkpoint or training.export" in str(error.value)


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (None, "it was not recorded, because the pod was gone"),
        ({}, "it was not recorded, because the pod was gone"),
        ({"value": "{"}, "that is not JSON"),
    ],
)
def test_a_result_that_is_missing_or_damaged_is_an_error(result: dict[str, str] | None, problem: str) -> None:
    status = {"phase": "Succeeded"} | ({} if result is None else {"functionResult": result})
    with pytest.raises(NotPossible, match=problem):
        handle(status).result()


def test_a_job_that_calls_no_function_has_no_result() -> None:
    with pytest.raises(NotPossible, match='job "fashion" calls no function'):
        handle({"phase": "Running"}, "train.py").result()


@pytest.mark.parametrize(
    "returned",
    ["text", {"value": "x" * (RETURNED_VALUE_BYTES + 1)}, {"value": {"a": 1}}, {"value": "\x1b[2J"}, [1]],
    ids=["a text", "too long", "an object", "control characters", "a list"],
)
def test_a_hostile_message_costs_nothing_but_its_result(returned: Any) -> None:
    status = status_of(json.dumps({"schemaVersion": 1, "reason": "Completed", "message": "", "returned": returned}))

    assert status["phase"] == "Succeeded"
    assert "\x1b" not in json.dumps(status, ensure_ascii=False)
    assert len(json.dumps(status.get("functionResult"))) < 100
