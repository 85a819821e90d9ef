"""Compares the CRD that the API server serves with the fields that this controller writes.

An API server prunes the fields of a status that its CRD lacks. With an older CRD, a controller would write the same
status repeatedly, and the record of attempts, which a new leader needs, would be lost without a message. So a replica
does not lead until the CRD has every field. A newer CRD has these fields too: controllers can be rolled back.

The schema is read from `/openapi/v3`, which every authenticated account may read: no role needs a right on CRDs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

from tfdist import __version__
from tfdist.api.crd import crd
from tfdist.api.v1 import GROUP, KIND, PLURAL, VERSION
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, Unavailable

log = logging.getLogger(__name__)

Schema = Mapping[str, Any]

_RETRY_SECONDS: Final = 5.0
_NAMED: Final = 3
"""Maximum number of fields in the message."""
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


class CrdCheck:
    """Checks the CRD. `problem` is a message while the CRD lacks fields of the status, and "" otherwise."""

    def __init__(self, client: Client, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._client = client
        self._sleep = sleep
        self.problem = ""

    async def wait(self) -> None:
        """Return once the CRD has every field of the status, or cannot be read; until then it is read again."""
        while True:
            try:
                absent = await self._absent()
            except Unavailable as error:
                log.warning("the schema of TFDistJob cannot be read yet", extra={"error": str(error)})
            except (ApiError, ValueError, LookupError, TypeError, AttributeError) as error:
                log.warning("the CRD is not compared with this version", extra={"error": repr(error)})
                break
            else:
                if not absent:
                    break
                self._report(absent)
            await self._sleep(_RETRY_SECONDS)
        self.problem = ""

    async def _absent(self) -> list[str]:
        """Return the fields of the status that the CRD lacks.

        Raises:
            ApiError: the schema cannot be read.
            ValueError, LookupError, TypeError, AttributeError: the schema has an unexpected form.
        """
        answer = await self._client.request("GET", f"/openapi/v3/apis/{GROUP}/{VERSION}", resource="openapi")
        (served,) = filter(_is_job, answer["components"]["schemas"].values())
        (version,) = crd()["spec"]["versions"]
        status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
        return list(missing(status, served["properties"].get("status", {}), "status"))

    def _report(self, absent: list[str]) -> None:
        names = ", ".join(absent[:_NAMED]) + (", ..." if len(absent) > _NAMED else "")
        problem = (
            f"the CRD {PLURAL}.{GROUP} is older than this controller and drops {names}: "
            f"apply the CRD of version {__version__}; this replica does not lead until then"
        )
        if problem != self.problem:
            log.error(problem)
        self.problem = problem


def _is_job(schema: Schema) -> bool:
    kinds = schema.get("x-kubernetes-group-version-kind", ())
    return {"group": GROUP, "kind": KIND, "version": VERSION} in kinds


def missing(ours: Schema, served: Schema, path: str) -> Iterator[str]:
    """Yield the paths of the fields of `ours` that the schema `served` lacks."""
    if served.get(_OPEN):
        return
    known = served.get("properties", {})
    for name, field in ours.get("properties", {}).items():
        if name in known:
            yield from missing(field, known[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}"
    for key, step in (("additionalProperties", ".*"), ("items", "[]")):
        if isinstance(ours.get(key), Mapping) and isinstance(served.get(key), Mapping):
            yield from missing(ours[key], served[key], path + step)
