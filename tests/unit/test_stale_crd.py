"""The check of the CRD: a replica waits, with a clear reason, until no field of its status would be dropped."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tfdist.api.crd import JOB, SWEEP, ResourceKind, crd
from tfdist_operator.kube.errors import ApiError, ForbiddenError, NotFoundError, UnavailableError
from tfdist_operator.kube.preflight import CrdCheck

Json = dict[str, Any]
Change = Callable[[Json], object]


def served(change: Change = dict, of: ResourceKind = JOB) -> Json:
    """Return the schema that the API server publishes for a CRD whose status was changed."""
    (version,) = copy.deepcopy(crd(of))["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    change(schema["properties"]["status"])
    kind = {"x-kubernetes-group-version-kind": [{"group": "tfdist.dev", "kind": of.kind, "version": of.version}]}
    return {"components": {"schemas": {"other": {}, "dev.tfdist": schema | kind}}}


class Server:
    """Returns its answers about jobs in order, then those about sweeps; `waits` has the reason of each wait."""

    def __init__(self, *answers: Json | ApiError, sweeps: Sequence[Json | ApiError] = ()) -> None:
        self._answers = [*answers, *(sweeps or (served(of=SWEEP),))]
        self.waits: list[str] = []
        self.check = CrdCheck(self, self._sleep)  # type: ignore[arg-type]

    async def request(self, _method: str, _path: str, **_: object) -> Json:
        answer = self._answers.pop(0)
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def _sleep(self, _seconds: float) -> None:
        self.waits.append(self.check.problem)


def drop_rungs(status: Json) -> None:
    del status["properties"]["rungs"]


def drop_summary(status: Json) -> None:
    del status["properties"]["summary"]


def drop_in_a_list(status: Json) -> None:
    del status["properties"]["failures"]["items"]["properties"]["rootCause"]


@pytest.mark.parametrize(
    ("change", "field"),
    [(drop_summary, "status.summary"), (drop_in_a_list, "status.failures[].rootCause")],
)
async def test_a_replica_waits_for_a_crd_that_has_every_field(change: Change, field: str) -> None:
    """Given an older CRD; when the newer one is applied, then the wait ends; until then the reason names the field."""
    server = Server(served(change), served(change), served())
    await server.check.wait()
    (why, _) = server.waits
    assert f"is older than this controller and drops {field}: apply the CRD of version" in why
    assert server.check.problem == ""


async def test_a_replica_waits_for_a_crd_of_sweeps_that_has_every_field() -> None:
    server = Server(served(), sweeps=[served(drop_rungs, SWEEP), served(of=SWEEP)])
    await server.check.wait()
    (why,) = server.waits
    assert "the CRD tfdistsweeps.tfdist.dev is older than this controller and drops status.rungs" in why
    assert server.check.problem == ""


async def test_without_a_crd_of_sweeps_no_replica_waits(caplog: pytest.LogCaptureFixture) -> None:
    server = Server(served(), sweeps=[NotFoundError(404, "", "")])
    await server.check.wait()
    assert (server.waits, caplog.messages) == ([], [])


async def test_a_newer_crd_fits() -> None:
    server = Server(served(lambda status: status["properties"].update(later={"type": "string"})))
    await server.check.wait()
    assert server.waits == []


async def test_an_open_part_drops_nothing() -> None:
    opened = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    server = Server(served(lambda status: status["properties"].update(summary=opened)))
    await server.check.wait()
    assert server.waits == []


@pytest.mark.parametrize(
    "answer", [ForbiddenError(403, "Forbidden", ""), NotFoundError(404, "", ""), {}, {"components": 1}]
)
async def test_a_schema_that_cannot_be_read_stops_no_replica(answer: Json | ApiError) -> None:
    server = Server(answer)
    await server.check.wait()
    assert server.waits == []


async def test_a_request_that_is_not_answered_is_repeated() -> None:
    server = Server(UnavailableError(503, "", ""), served())
    await server.check.wait()
    assert server.waits == [""]
