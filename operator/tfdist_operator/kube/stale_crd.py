"""Compares the CRD that the API server serves with the fields that this controller writes.

An API server prunes the fields of a status that its CRD lacks. With an older CRD, a controller would write the same
status repeatedly, and the record of attempts, which a new leader needs, would be lost without a message. So a replica
does not lead until the CRD has every field. A newer CRD has these fields too: controllers can be rolled back.

The schema is that of `/openapi/v3`: no role needs a right on CRDs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tfdist import __version__
from tfdist.api.resource import GROUP, PLURAL
from tfdist.api.served_schema import PATH, missing_fields
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, Unavailable

log = logging.getLogger(__name__)

_RETRY_SECONDS: Final = 5.0
_NAMED: Final = 3
"""Maximum number of fields in the message."""


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
        return missing_fields(await self._client.request("GET", PATH, resource="openapi"), "status")

    def _report(self, absent: list[str]) -> None:
        names = ", ".join(absent[:_NAMED]) + (", ..." if len(absent) > _NAMED else "")
        problem = (
            f"the CRD {PLURAL}.{GROUP} is older than this controller and drops {names}: "
            f"apply the CRD of version {__version__}; this replica does not lead until then"
        )
        if problem != self.problem:
            log.error(problem)
        self.problem = problem
