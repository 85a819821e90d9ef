"""Checks of the API server before kopf watches: kopf waits without a message for a resource that does not exist."""

import asyncio
import logging
from typing import Final

from tfdist.api.resource import GROUP, PLURAL, VERSION
from tfdist_operator.kube.backoff import RECONNECT
from tfdist_operator.kube.client import Client
from tfdist_operator.kube.errors import ApiError, Forbidden, NotFound, Rejected
from tfdist_operator.kube.keys import ALL_NAMESPACES

log = logging.getLogger(__name__)

_CRD_SECONDS: Final = 10.0
"""How long to wait for the CRD: `helm install` creates it together with the controller."""
_ANSWER_SECONDS: Final = 10.0
_NO_OBJECT: Final = "metadata.name=-"
"""No object can have this name, so the stream is empty."""


class CrdMissing(Exception):  # noqa: N818  a state of the cluster, not of the controller
    """The API server does not serve TFDistJobs."""


async def await_crd(client: Client) -> None:
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
        except NotFound:
            has_response = True
        except ApiError as error:
            log.warning("the API server does not answer yet", extra={"error": str(error)})
            has_response = False
        pause = next(pauses)
        elapsed += pause if has_response else 0.0
        if elapsed > _CRD_SECONDS:
            msg = f"the API server serves no {PLURAL}.{GROUP}/{VERSION}: install the CRD (crds/tfdistjobs.yaml)"
            raise CrdMissing(msg)
        await asyncio.sleep(pause)


async def streams_lists(client: Client, namespace: str) -> bool:
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
            async with client.stream(path, resource=PLURAL, read_timeout_seconds=_ANSWER_SECONDS, query=query):
                return True
        except Forbidden as error:  # a server that has just started returns this for a moment
            log.warning("jobs cannot be watched yet", extra={"error": str(error)})
        except Rejected as error:
            log.info("the API server does not stream lists; they are read in pages", extra={"answer": str(error)})
            return False
        except ApiError as error:
            log.warning("the API server does not answer yet", extra={"error": str(error)})
        await asyncio.sleep(seconds)
    raise AssertionError  # RECONNECT never ends
