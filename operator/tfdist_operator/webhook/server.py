"""The HTTPS server of the admission webhook, in kopf's protocol for custom servers.

kopf's server answers 500 to a review that is nested too deep or larger than 1 MiB, and closes its port when the
certificate is renewed. This server accepts such reviews, and uses a new certificate from the next connection on.

Anyone in the cluster can send reviews. Their number and size are limited, they are read in a thread, and kopf gets no
specification that is too large.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web

from tfdist.validation.structure import MAX_SPEC_BYTES, bounded
from tfdist_operator.budget import in_thread
from tfdist_operator.http_server import HttpServer
from tfdist_operator.kube.json_bodies import flatten

log = logging.getLogger(__name__)

_LARGEST: Final = 6 << 20
"""Maximum size of a review: it contains the new and the old version of the object, of at most 3 MiB each."""
_CONNECTIONS: Final = 16

ReviewFunction = Callable[..., Awaitable[Any]]


class WebhookServer:
    """Serves reviews on `port` once `ready` is set, with the certificate of `context`.

    Args:
        port: port of every address.
        context: TLS settings.
        ready: set once there is a certificate.
        max_spec_bytes: size as JSON of the largest specification that kopf gets; a larger one is omitted.
    """

    def __init__(
        self, port: int, context: ssl.SSLContext, ready: asyncio.Event, max_spec_bytes: int = MAX_SPEC_BYTES
    ) -> None:
        self._port = port
        self._context = context
        self._ready = ready
        self._max_spec_bytes = max_spec_bytes
        self._thread = ThreadPoolExecutor(1, "reading of reviews")

    async def __call__(self, review: ReviewFunction) -> AsyncGenerator[Any, None]:
        """Serve until cancelled. kopf requires the yielded URL but does not use it: the chart has the configuration."""
        await self._ready.wait()
        server = HttpServer(partial(self._answer, review), _CONNECTIONS, max_bytes=_LARGEST)
        try:
            await server.start(self._port, self._context)
            log.info("admission webhook is served", extra={"port": self._port})
            yield {"url": f"https://localhost:{self._port}"}
            await asyncio.Event().wait()
        finally:
            await server.stop()

    async def _answer(self, review: ReviewFunction, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one review. A job whose review fails in kopf is admitted: the controller checks every job again."""
        try:
            body = await request.read()
            # Anyone in the cluster can send reviews: reading one must not keep the main loop busy (ADR 53).
            review_request, _ = await in_thread(self._thread, "reading of a review", partial(self._read, body))
            uid = review_request["request"]["uid"]
        except (ValueError, LookupError, TypeError) as error:
            return web.Response(status=400, text=f"not an AdmissionReview: {error!r:.200}")
        try:
            return web.json_response(await review(review_request, headers=dict(request.headers)))
        except Exception:
            # kopf's own server turns an exception into a rejection (ADR 20).
            log.exception("a review failed; the job is admitted")
        warning = "not validated at admission: the webhook failed; the controller checks it later"
        answer = {"uid": uid, "allowed": True, "warnings": [warning]}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    def _read(self, body: bytes) -> dict[str, Any]:
        """Return a review of bounded depth, without specifications that are too large.

        Raises:
            ValueError, LookupError, TypeError: it is not a review.
        """
        review: dict[str, Any] = orjson.loads(flatten(body))
        request = review["request"]
        versions = {
            name: bounded(request[name], self._max_spec_bytes)
            for name in ("object", "oldObject")
            if isinstance(request.get(name), dict)
        }
        return {**review, "request": {**request, **versions}}
