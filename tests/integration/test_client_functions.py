"""Functions as jobs of a cluster, as a user with the role `edit`, also within an event loop."""

import asyncio
import base64
import io
import json
import pathlib
import subprocess
import sys
import tarfile
from typing import Any

import pytest
from support import client_user
from support.api import JOBS, Api, Json
from support.factories import manifest
from support.functions import train

import tfdist
from tfdist import Client
from tfdist.api.status import JobPhase
from tfdist.api.sweep import TFDistSweep
from tfdist.cli.commands.sweep import result_table
from tfdist.client.errors import (
    AlreadyExists,
    FunctionError,
    Invalid,
    JobFailed,
)
from tfdist.client.function import ARGUMENTS
from tfdist.client.sweep import rows
from tfdist.sweeps.trial import trial_manifest

pytestmark = pytest.mark.integration
SDK = str(pathlib.Path(tfdist.__file__).parents[1])
TIMEOUT = 120


@pytest.fixture
def client(api: Api, namespace: str, tmp_path: pathlib.Path) -> Client:
    return Client(kubeconfig=client_user.kubeconfig(api, namespace, tmp_path))


class Ends:
    """Plays the controller: gives jobs their ends."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._path = api, JOBS.format(ns=namespace)

    def __call__(self, name: str, phase: str = "Succeeded", message: str = "") -> None:
        generation = self._api.do("GET", f"{self._path}/{name}")["metadata"]["generation"]
        status = {"phase": phase, "observedGeneration": generation, "summary": {"message": message}}
        self._api.do("PATCH", f"{self._path}/{name}/status", {"status": status}, "merge-patch")


@pytest.fixture
def end(api: Api, namespace: str) -> Ends:
    return Ends(api, namespace)


def names(client: Client) -> list[str]:
    return [job.name for job in client.list()]


# A cluster


def test_a_function_is_submitted_with_its_code_and_arguments(
    client: Client, api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    handle = train.submit(0.5, layers=[3], client=client)

    spec = handle.job.spec
    assert (spec["worker"]["replicas"], spec["training"]["script"]) == (2, "tfdist_call.py")
    assert json.loads(handle.job.manifest["metadata"]["annotations"][ARGUMENTS]) == {"lr": 0.5, "layers": [3]}
    name = spec["training"]["source"]["archive"]["name"]
    stored = api.do("GET", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    content = base64.b64decode(stored["binaryData"]["code.tar.gz"])
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        packed.extractall(tmp_path, filter="data")
    command = [sys.executable, "tfdist_call.py"]
    ended = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": SDK}, capture_output=True, check=False, text=True)
    assert (ended.returncode, ended.stdout) == (0, "trained with 0.5 [3]\n"), ended.stderr


def test_a_map_is_one_sweep_with_its_arguments_and_its_code(client: Client, api: Api, namespace: str) -> None:
    """Given three sets of arguments; when they are mapped, then a sweep has them, and owns the code."""
    sets: list[Json] = [{"lr": 0.1}, {"lr": 0.2, "layers": [3, 4]}, {"lr": 0.3, "layers": None}]
    handle = train.map(sets, parallelism=2, name="rates", client=client)

    spec = handle.sweep.spec
    assert [item["arguments"] for item in spec["search"]["list"]] == sets
    assert (spec["parallelism"], spec["search"]["method"]) == (2, "List")
    assert names(client) == [], "the controller creates the jobs"
    code = spec["template"]["spec"]["training"]["source"]["archive"]["name"]
    stored = api.do("GET", f"/api/v1/namespaces/{namespace}/configmaps/{code}")
    assert [owner["name"] for owner in stored["metadata"]["ownerReferences"]] == ["rates"]


def test_the_results_of_a_map_are_read_by_another_client(
    client: Client, api: Api, namespace: str, tmp_path: pathlib.Path
) -> None:
    """Given a map whose second job has failed; then another client has the results in the order of the arguments."""
    train.map([{"lr": 1}, {"lr": 2}, {"lr": 3}], name="rates", client=client)
    play(api, namespace, "rates", ["Succeeded", "Failed", "Succeeded"])

    other = Client(kubeconfig=client_user.kubeconfig(api, namespace, tmp_path))
    trials = other.sweeps.attach("rates").wait(timeout=TIMEOUT)

    assert [trial.parameters["arguments"] for trial in trials] == [{"lr": 1}, {"lr": 2}, {"lr": 3}]
    assert [trial.phase for trial in trials] == ["Succeeded", "Failed", "Succeeded"]
    assert (trials[0].result, trials[2].result) == ({"job": "rates-0"}, {"job": "rates-2"})
    with pytest.raises(JobFailed, match=r"^rates-1 failed: Crash$"):
        _ = trials[1].result
    assert rows(trials)[2]["result"] == {"job": "rates-2"}
    assert "RESULT" in result_table(trials, width=None)[0]
    assert [job.name for job in other.sweeps.attach("rates").jobs()] == ["rates-0", "rates-1", "rates-2"]


def play(api: Api, namespace: str, sweep: str, phases: list[str]) -> None:
    """Play the controller: create a job for each trial, and give them and the sweep their ends."""
    jobs = JOBS.format(ns=namespace)
    path = jobs.replace("/v1/", "/v1alpha1/").replace("tfdistjobs", "tfdistsweeps") + f"/{sweep}"
    stored = api.do("GET", path)
    parsed = TFDistSweep.model_validate({key: value for key, value in stored.items() if key != "status"})
    results: list[Json] = []
    for number, phase in enumerate(phases):
        job = trial_manifest(stored, parsed, number)
        name = job["metadata"]["name"]
        api.do("POST", jobs, job)
        returned: Json = {"phase": phase, "functionResult": {"value": json.dumps({"job": name})}}
        api.do("PATCH", f"{jobs}/{name}/status", {"status": returned}, "merge-patch")
        values: Json = {"trial": number, "phase": phase, "parameters": stored["spec"]["search"]["list"][number]}
        results.append(values | ({"reason": "Crash"} if phase == "Failed" else {}))
    status: Json = {"phase": "Succeeded", "observedGeneration": stored["metadata"]["generation"], "results": results}
    api.do("PATCH", f"{path}/status", {"status": status}, "merge-patch")


def test_a_second_map_of_a_name_is_rejected_and_leaves_the_first(client: Client) -> None:
    train.map([{"lr": 1}], name="rates", client=client)

    with pytest.raises(AlreadyExists, match='sweep "rates" already exists'):
        train.map([{"lr": 1}, {"lr": 2}], name="rates", client=client)

    assert len(client.sweeps.get("rates").spec["search"]["list"]) == 1


def test_a_map_that_cannot_run_creates_nothing(client: Client) -> None:
    bad: list[tuple[list[Json], str]] = [
        ([{"lr": 1}, {"lr": object()}], "argument lr is not JSON"),
        ([], "0 sets of arguments; a sweep has 1 to 500"),
        ([{"lr": 1}] * 501, "501 sets of arguments"),
    ]
    for sets, message in bad:
        with pytest.raises(FunctionError, match=message):
            train.map(sets, client=client)

    assert client.sweeps.list() == []


def test_jobs_of_a_map_must_not_share_a_directory(client: Client) -> None:
    shared = tfdist.job(checkpoint="s3://bucket/run")(train.__wrapped__)  # type: ignore[attr-defined]

    with pytest.raises(Invalid, match=r"checkpoint.directory: .*\{name\}"):
        shared.map([{"lr": 1}, {"lr": 2}], client=client)

    assert client.sweeps.list() == []


# A running event loop


async def test_a_job_is_waited_for_in_a_thread_of_an_event_loop(client: Client, end: Ends) -> None:
    handle = client.submit(new_manifest())
    waiting = asyncio.create_task(asyncio.to_thread(handle.wait, timeout=TIMEOUT))
    await asyncio.to_thread(end, "fashion")

    assert (await waiting).phase is JobPhase.SUCCEEDED


async def test_the_client_works_where_an_event_loop_runs(client: Client, end: Ends) -> None:
    handle = client.submit(new_manifest())
    end("fashion")

    assert handle.wait(timeout=TIMEOUT).phase is JobPhase.SUCCEEDED


def new_manifest(name: str = "fashion", **spec: Any) -> Json:
    """Return a manifest as users write it, without a namespace."""
    made = manifest(name, **spec)
    del made["metadata"]["uid"], made["metadata"]["namespace"]
    return made
