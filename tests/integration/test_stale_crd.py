"""An older CRD, as the API server publishes it: a controller waits for the newer one, and reports why."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from support.api import Api, Json
from support.polling import wait_for

from tfdist_operator.kube.preflight import CrdCheck

pytestmark = pytest.mark.integration

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tfdistjobs.tfdist.dev"
SUMMARY = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/summary"
OPENAPI = "/openapi/v3/apis/tfdist.dev/v1"


class Asked:
    """Requests as the controller's client sends them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def request(self, method: str, path: str, **_: object) -> Json:
        return self._api.do(method, path)


def published(api: Api) -> bool:
    """Return whether the API server publishes the field that the test takes away."""
    schemas = api.do("GET", OPENAPI)["components"]["schemas"].values()
    return any("summary" in s.get("properties", {}).get("status", {}).get("properties", {}) for s in schemas)


def change(api: Api, patch: Json) -> None:
    body: Any = [{"path": SUMMARY, **patch}]
    api.do("PATCH", CRD, body, "json-patch")


@pytest.fixture
def older(api: Api) -> Iterator[Json]:
    """Let the CRD lack `status.summary`; give what it was."""
    (version,) = api.do("GET", CRD)["spec"]["versions"]
    summary: Json = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["summary"]
    change(api, {"op": "remove"})
    try:
        wait_for("the older schema", lambda: not published(api))
        yield summary
    finally:
        change(api, {"op": "add", "value": summary})
        wait_for("the newer schema", lambda: published(api))


async def test_a_controller_waits_for_a_crd_that_drops_nothing(api: Api, older: Json) -> None:
    """Given a CRD without a field of the status; when the newer one is applied, then the controller goes on."""
    waits: list[str] = []

    async def upgrade(_seconds: float) -> None:
        waits.append(check.problem)
        change(api, {"op": "add", "value": older})
        await asyncio.sleep(0.1)

    check = CrdCheck(Asked(api), upgrade)  # type: ignore[arg-type]
    async with asyncio.timeout(60):
        await check.wait()
    assert "drops status.summary: apply the CRD of version" in waits[0]


async def test_the_shipped_crd_fits(api: Api) -> None:
    waits: list[str] = []

    async def note(_seconds: float) -> None:
        waits.append(check.problem)

    check = CrdCheck(Asked(api), note)  # type: ignore[arg-type]
    await check.wait()
    assert waits == []
    assert published(api), "the schema can be read, so it was compared"
