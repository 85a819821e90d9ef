"""Checks that the API server serves the CRDs, before kopf watches, and all of their fields, before this replica leads.

kopf waits without a message for a resource that does not exist (ADR 10). The schemas of the CRDs are read from
`/openapi/v3`, which needs no right on CRDs (ADR 19).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tfdist import __version__
from tfdist.api.crd import JOB, SWEEP, ResourceKind
from tfdist.api.resource import GROUP, PLURAL, VERSION
from tfdist.api.served_schema import missing_fields, schema_path
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.client import ApiClient
from tfdist_operator.kube.errors import ApiError, ForbiddenError, NotFoundError, RejectedError, UnavailableError
from tfdist_operator.kube.keys import ALL_NAMESPACES

log = logging.getLogger(__name__)

_CRD_SECONDS: Final = 10.0
"""How long to wait for the CRD: `helm install` creates it together with the controller."""
_ANSWER_SECONDS: Final = 10.0
_NO_OBJECT: Final = "metadata.name=-"
"""No object can have this name, so the stream is empty."""
_RETRY_SECONDS: Final = 5.0
_MAX_NAMED_FIELDS: Final = 3
"""Maximum number of fields in the message."""


class CrdMissing(Exception):  # noqa: N818  a state of the cluster, not of the controller
    """The API server does not serve TFDistJobs."""


async def await_crd(client: ApiClient) -> None:
    """Wait until the API server's discovery, which kopf reads, lists TFDistJobs.

    Raises:
        CrdMissing: discovery has answered without them for ten seconds.
    """
    group, pauses, elapsed = f"/apis/{GROUP}/{VERSION}", iter(RECONNECT), 0.0
    while True:
        try:
            resources = await client.request("GET", group, resource="discovery")
            if any(kind["name"] == PLURAL for kind in resources["resources"]):
                return
            has_response = True
        except NotFoundError:
            has_response = True
        except ApiError as error:
            log.warning("the API server does not answer yet", extra={"error": str(error)})
            has_response = False
        pause = next(pauses)
        # Time in which the server does not answer does not count: an outage is waited for without limit.
        elapsed += pause if has_response else 0.0
        if elapsed > _CRD_SECONDS:
            msg = f"the API server serves no {PLURAL}.{GROUP}/{VERSION}: install the CRD (crds/tfdistjobs.yaml)"
            raise CrdMissing(msg)
        await asyncio.sleep(pause)


async def streams_lists(client: ApiClient, namespace: str) -> bool:
    """Return whether the API server sends lists as streams (`sendInitialEvents`), in small pieces for both sides."""
    namespace_path = "" if namespace == ALL_NAMESPACES else f"namespaces/{namespace}/"
    query = {
        "watch": "1",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "fieldSelector": _NO_OBJECT,
        "timeoutSeconds": "1",
    }
    path = f"/apis/{GROUP}/{VERSION}/{namespace_path}{PLURAL}"
    for seconds in RECONNECT:
        try:
            # A watch, because only its answer shows whether `sendInitialEvents` is accepted; it selects no object.
            async with client.stream(path, resource=PLURAL, read_timeout_seconds=_ANSWER_SECONDS, query=query):
                return True
        except ForbiddenError as error:  # a server that has just started returns this for a moment
            log.warning("jobs cannot be watched yet", extra={"error": str(error)})
        except RejectedError as error:
            log.info("the API server does not stream lists; they are read in pages", extra={"answer": str(error)})
            return False
        except ApiError as error:
            log.warning("the API server does not answer yet", extra={"error": str(error)})
        await asyncio.sleep(seconds)
    raise AssertionError  # RECONNECT never ends


class CrdCheck:
    """Checks the CRDs. `problem` is a message while one of them lacks fields of the status, and "" otherwise."""

    def __init__(self, client: ApiClient, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._client = client
        self._sleep = sleep
        self.problem = ""

    async def wait(self) -> None:
        """Poll until each CRD has every field of the status, or cannot be read."""
        # An API server prunes the fields of a status that its CRD lacks. With an older CRD, the controller would write
        # the same status again and again, and the record of attempts, which a new leader needs, would be lost without a
        # message (ADR 19). A newer CRD has these fields too, so that a controller can be rolled back.
        for kind in (JOB, SWEEP):
            await self._wait(kind)
        self.problem = ""

    async def _wait(self, kind: ResourceKind) -> None:
        while True:
            try:
                absent = await self._missing_fields(kind)
            except UnavailableError as error:
                log.warning("the schema of %s cannot be read yet", kind.kind, extra={"error": str(error)})
            except (ApiError, ValueError, LookupError, TypeError, AttributeError) as error:
                # The CRD of sweeps is optional (ADR 42): its absence is no reason for a warning.
                if kind is JOB or not isinstance(error, NotFoundError):
                    extra = {"error": repr(error)}
                    # What cannot be read is not compared, and does not keep the replica from leading.
                    log.warning("the CRD of %s is not compared with this version", kind.kind, extra=extra)
                return
            else:
                if not absent:
                    return
                self._report(kind, absent)
            await self._sleep(_RETRY_SECONDS)

    async def _missing_fields(self, kind: ResourceKind) -> list[str]:
        """Return the fields of the status that the CRD of `kind` lacks.

        Raises:
            ApiError: the schema cannot be read.
            ValueError, LookupError, TypeError, AttributeError: the schema has an unexpected form.
        """
        document = await self._client.request("GET", schema_path(kind), resource="openapi")
        return missing_fields(document, kind, "status")

    def _report(self, kind: ResourceKind, absent: list[str]) -> None:
        names = ", ".join(absent[:_MAX_NAMED_FIELDS]) + (", ..." if len(absent) > _MAX_NAMED_FIELDS else "")
        problem = (
            f"the CRD {kind.plural}.{GROUP} is older than this controller and drops {names}: "
            f"apply the CRD of version {__version__}; this replica does not lead until then"
        )
        if problem != self.problem:
            log.error(problem)
        self.problem = problem
