"""Each bad manifest is refused by the API server, or told in the job's status where only the controller sees it."""

import copy
import uuid
from collections.abc import Iterator

import pytest
from support import controller as controllers
from support.api import JOBS, Api, Json, wait_for
from support.bad_manifests import BAD, Bad
from support.factories import condition, manifest

pytestmark = pytest.mark.integration

REFUSED = [bad for bad in BAD if bad.server]
MENDED = [bad for bad in BAD if bad.mended]
HIDDEN = {f"bad-{number}": bad for number, bad in enumerate(BAD) if not bad.server and not bad.mended}


@pytest.fixture(scope="module")
def shared(api: Api) -> Iterator[str]:
    """A namespace for all tests of this file: most of them store nothing."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    api.do("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    api.do("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def looked_at(api: Api, shared: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    """Every bad job that the API server takes, and a good one among them, as the controller leaves them."""
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


@pytest.mark.parametrize("bad", REFUSED, ids=str)
def test_a_mistake_is_refused_at_apply_time(api: Api, shared: str, bad: Bad) -> None:
    answer = api.send(
        "POST", JOBS.format(ns=shared), placed(bad.manifest, shared), dryRun="All", fieldValidation="Strict"
    )
    assert answer.status_code in {400, 422}, answer.text
    assert bad.server is not None
    assert bad.server in answer.json()["message"]


@pytest.mark.parametrize("bad", MENDED, ids=str)
def test_an_empty_field_is_dropped_by_the_api_server(api: Api, shared: str, bad: Bad) -> None:
    answer = api.send(
        "POST", JOBS.format(ns=shared), placed(bad.manifest, shared), dryRun="All", fieldValidation="Strict"
    )
    assert answer.ok, answer.text
    assert "null" not in answer.text


@pytest.mark.parametrize("name", HIDDEN, ids=lambda name: str(HIDDEN[name]))
def test_a_mistake_that_the_api_server_cannot_see_is_told_in_the_status(looked_at: dict[str, Json], name: str) -> None:
    status = looked_at[name]["status"]
    assert status["phase"] == "Invalid"
    assert condition(status, "Invalid")["status"] == "True"
    assert condition(status, "Invalid")["message"].startswith(HIDDEN[name].says)


def test_a_bad_job_costs_a_good_one_nothing(looked_at: dict[str, Json]) -> None:
    assert looked_at["good"]["status"]["phase"] in {"Pending", "Starting", "Running"}


def test_the_status_of_a_bad_job_speaks_of_the_manifest_that_was_applied(looked_at: dict[str, Json]) -> None:
    assert all(job["status"]["observedGeneration"] == job["metadata"]["generation"] for job in looked_at.values())
