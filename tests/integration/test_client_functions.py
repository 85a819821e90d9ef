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
from tfdist.client.errors import (
    AlreadyExists,
    BatchFailed,
    FunctionError,
    NotFound,
    WaitTimeout,
)
from tfdist.client.function import ARGUMENTS

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


def test_a_batch_has_at_most_as_many_unfinished_jobs_as_its_parallelism(client: Client, end: Ends) -> None:
    batch = train.map([{"lr": 1}, {"lr": 2}, {"lr": 3}], parallelism=2, name="rates", client=client)

    assert names(client) == ["rates-0", "rates-1"]
    assert (len(batch), batch.status()) == (3, {"Pending": 2, "NotSubmitted": 1})
    end("rates-1")
    completed = batch.as_completed(timeout=TIMEOUT)
    assert next(completed).name == "rates-1"
    assert names(client) == ["rates-0", "rates-1", "rates-2"]
    end("rates-0")
    end("rates-2")
    assert {handle.name for handle in completed} == {"rates-0", "rates-2"}
    assert [result.phase for result in batch.results(timeout=TIMEOUT)] == [JobPhase.SUCCEEDED] * 3


def test_the_results_of_a_batch_name_its_failures_after_all_jobs_have_finished(client: Client, end: Ends) -> None:
    batch = train.map([{"lr": 1}, {"lr": 2}, {"lr": 3}], name="rates", client=client)
    end("rates-0", "Failed", "worker-0: out of memory")
    with pytest.raises(WaitTimeout, match=r"^batch rates after 0 s: 1 Failed, 2 Pending$"):
        batch.results(timeout=0)

    end("rates-1")
    client.jobs.delete("rates-2")

    with pytest.raises(BatchFailed) as error:
        batch.results(timeout=TIMEOUT)
    expected = "2 of 3 jobs failed: rates-0 failed: worker-0: out of memory; rates-2 deleted"
    assert str(error.value) == expected
    assert [handle.name for handle in batch.failures()] == ["rates-0", "rates-2"]


def test_a_batch_is_found_again_by_its_name(client: Client, end: Ends) -> None:
    train.map([{"lr": rate} for rate in range(11)], name="rates", client=client)
    train.submit(lr=1, client=client)
    end("rates-3")

    found = client.batch("rates")

    assert [handle.name for handle in found.jobs] == [f"rates-{index}" for index in range(11)]
    assert found.status() == {"Pending": 10, "Succeeded": 1}
    assert repr(found) == "<Batch rates: 10 Pending, 1 Succeeded>"
    with pytest.raises(NotFound, match=r'^batch "absent" not found'):
        client.batch("absent")


def test_a_cancelled_batch_keeps_its_finished_jobs_and_submits_no_other(client: Client, end: Ends) -> None:
    batch = train.map([{"lr": 1}, {"lr": 2}, {"lr": 3}], parallelism=2, name="rates", client=client)
    end("rates-0")

    batch.cancel()

    assert names(client) == ["rates-0"]
    assert [handle.name for handle in batch.as_completed(timeout=TIMEOUT)] == ["rates-0", "rates-1"]
    assert names(client) == ["rates-0"]


def test_a_batch_whose_jobs_cannot_all_be_created_leaves_none(client: Client) -> None:
    client.submit(new_manifest("rates-1"))

    with pytest.raises(AlreadyExists, match='"rates-1" already exists'):
        train.map([{"lr": 1}, {"lr": 2}], name="rates", client=client)

    assert names(client) == ["rates-1"]


def test_a_second_batch_of_a_name_is_rejected_and_leaves_the_first(client: Client) -> None:
    train.map([{"lr": 1}], name="rates", client=client)

    with pytest.raises(AlreadyExists, match='batch "rates" already exists'):
        train.map([{"lr": 1}, {"lr": 2}], name="rates", client=client)

    assert names(client) == ["rates-0"]


def test_no_job_of_a_batch_is_created_if_one_has_an_argument_that_is_not_json(client: Client) -> None:
    with pytest.raises(FunctionError, match="argument lr is not JSON"):
        train.map([{"lr": 1}, {"lr": object()}], client=client)

    assert names(client) == []


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
