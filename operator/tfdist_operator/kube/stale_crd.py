"""Compares the CRDs that the API server serves with the fields that this controller writes.

An API server prunes the fields of a status that its CRD lacks. With an older CRD, a controller would write the same
status repeatedly, and the record of attempts, which a new leader needs, would be lost without a message. So a replica
does not lead until each CRD has every field. A newer CRD has these fields too: controllers can be rolled back. The CRD
of sweeps may be absent.

The schemas are those of `/openapi/v3`: no role needs a right on CRDs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tfdist import __version__
from tfdist.api.crd import JOB, SWEEP, ResourceKind
from tfdist.api.resource import GROUP
from tfdist.api.served_schema import missing_fields, schema_path
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, NotFound, Unavailable

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0
_NAMED: Final = 3
"""Maximum number of fields in the message."""


class CrdCheck:
    """Checks the CRDs. `problem` is a message while one of them lacks fields of the status, and "" otherwise."""

    def __init__(self, client: Client, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._client = client
        self._sleep = sleep
        self.problem = ""

    async def wait(self) -> None:
        """Poll until each CRD has every field of the status, or cannot be read."""
        for kind in (JOB, SWEEP):
            await self._wait(kind)
        self.problem = ""

    async def _wait(self, kind: ResourceKind) -> None:
        while True:
            try:
                absent = await self._absent(kind)
            except Unavailable as error:
                log.warning("the schema of %s cannot be read yet", kind.kind, extra={"error": str(error)})
            except (ApiError, ValueError, LookupError, TypeError, AttributeError) as error:
                if kind is JOB or not isinstance(error, NotFound):
                    extra = {"error": repr(error)}
                    log.warning("the CRD of %s is not compared with this version", kind.kind, extra=extra)
                return
            else:
                if not absent:
                    return
                self._report(kind, absent)
            await self._sleep(_RETRY_SECONDS)

    async def _absent(self, kind: ResourceKind) -> list[str]:
        """Return the fields of the status that the CRD of `kind` lacks.

        Raises:
            ApiError: the schema cannot be read.
            ValueError, LookupError, TypeError, AttributeError: the schema has an unexpected form.
        """
        document = await self._client.request("GET", schema_path(kind), resource="openapi")
        return missing_fields(document, kind, "status")

    def _report(self, kind: ResourceKind, absent: list[str]) -> None:
        names = ", ".join(absent[:_NAMED]) + (", ..." if len(absent) > _NAMED else "")
        problem = (
            f"the CRD {kind.plural}.{GROUP} is older than this controller and drops {names}: "
            f"apply the CRD of version {__version__}; this replica does not lead until then"
        )
        if problem != self.problem:
            log.error(problem)
        self.problem = problem
