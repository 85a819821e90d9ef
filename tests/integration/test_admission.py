"""The API server rejects each invalid manifest, or the controller reports its error in the status of the job."""

import copy
import uuid
from collections.abc import Iterator

import pytest
from support import controller as controllers
from support.api import JOBS, Api, Json
from support.bad_manifests import BAD, Bad
from support.factories import condition, manifest
from support.polling import wait_for

pytestmark = pytest.mark.integration

REJECTED = [bad for bad in BAD if bad.server]
DROPPED = [bad for bad in BAD if bad.dropped]
HIDDEN = {f"bad-{number}": bad for number, bad in enumerate(BAD) if not bad.server and not bad.dropped}


@pytest.fixture(scope="module")
def shared(api: Api) -> Iterator[str]:
    """A namespace for all tests of this file: most of them store nothing."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.do("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def reconciled(api: Api, shared: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """Every invalid job that the API server accepts, and a valid one, after their reconcile."""
    names = [*HIDDEN, "good"]
    with controllers.controller(api, tmp_path_factory.mktemp("controller")) as running:
        for name, bad in HIDDEN.items():
            api.create_job(placed(bad.manifest, shared, name))
        api.create_job(placed(manifest(), shared, "good"))
        wait_for("a status of every job", lambda: all("phase" in api.job(shared, n).get("status", {}) for n in names))
        wait_for("the pods of the good job", lambda: len(api.pods(shared)) == 2)
        assert running.ready()
        return {name: api.job(shared, name) for name in names}


def placed(bad: Json, namespace: str, name: str | None = None) -> Json:
    made = copy.deepcopy(bad)
    made["metadata"] |= {"namespace": namespace} | ({"name": name} if name else {})
    made["metadata"].pop("uid", None)
    return made


@pytest.mark.parametrize("bad", REJECTED, ids=str)
def test_the_api_server_rejects_an_invalid_manifest(api: Api, shared: str, bad: Bad) -> None:
    answer = api.send(
        "POST", JOBS.format(ns=shared), placed(bad.manifest, shared), dryRun="All", fieldValidation="Strict"
    )
    assert answer.status_code in {400, 422}, answer.text
    assert bad.server is not None
    assert bad.server in answer.json()["message"]


@pytest.mark.parametrize("bad", DROPPED, ids=str)
def test_the_api_server_drops_null_fields(api: Api, shared: str, bad: Bad) -> None:
    answer = api.send(
        "POST", JOBS.format(ns=shared), placed(bad.manifest, shared), dryRun="All", fieldValidation="Strict"
    )
    assert answer.ok, answer.text
    assert "null" not in answer.text


@pytest.mark.parametrize("name", HIDDEN, ids=lambda name: str(HIDDEN[name]))
def test_an_error_that_the_api_server_does_not_detect_is_reported_in_the_status(
    reconciled: dict[str, Json], name: str
) -> None:
    status = reconciled[name]["status"]
    assert status["phase"] == "Invalid"
    assert condition(status, "Invalid")["status"] == "True"
    message = condition(status, "Invalid")["message"]
    assert message.startswith(f"{HIDDEN[name].path}: ")
    assert HIDDEN[name].message in message


def test_an_invalid_job_does_not_affect_a_valid_one(reconciled: dict[str, Json]) -> None:
    assert reconciled["good"]["status"]["phase"] in {"Pending", "Starting", "Running"}


def test_the_status_of_a_bad_job_speaks_of_the_manifest_that_was_applied(reconciled: dict[str, Json]) -> None:
    assert all(job["status"]["observedGeneration"] == job["metadata"]["generation"] for job in reconciled.values())
