"""The HTTPS server of the admission webhook, in kopf's protocol for custom servers.

kopf's server answers 500 to a review that is nested too deep or larger than 1 MiB, and closes its port when the
certificate is renewed. This server accepts such reviews, and uses a new certificate from the next connection on.
"""

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import orjson
from aiohttp import web

from tfdist_operator.kube.decode import flattened

log = logging.getLogger(__name__)

_LARGEST: Final = 16 * 1024 * 1024
"""Maximum size of a review, which has two versions of the object: the new and the old one."""

ReviewFunction = Callable[..., Awaitable[Any]]


class WebhookServer:
    """Serves reviews on `port` once `ready` is set, with the certificate of `context`."""

    def __init__(self, port: int, context: ssl.SSLContext, ready: asyncio.Event) -> None:
        self._port = port
        self._context = context
        self._ready = ready

    async def __call__(self, review: ReviewFunction) -> AsyncGenerator[Any, None]:
        """Serve until cancelled. kopf requires the yielded URL but does not use it: the chart has the configuration."""
        await self._ready.wait()
        app = web.Application(client_max_size=_LARGEST)

        async def serve(request: web.Request) -> web.Response:
            return await _answer(request, review)

        app.router.add_post("/{path:.*}", serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        try:
            await web.TCPSite(runner, port=self._port, ssl_context=self._context).start()
            log.info("admission webhook is served", extra={"port": self._port})
            yield {"url": f"https://localhost:{self._port}"}
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()


async def _answer(request: web.Request, review: ReviewFunction) -> web.Response:
    """Answer one review. A job whose review fails in kopf is admitted: the controller checks every job again."""
    try:
        review_request = orjson.loads(flattened(await request.read()))
        uid = review_request["request"]["uid"]
    except (ValueError, LookupError, TypeError) as error:
        return web.Response(status=400, text=f"not an AdmissionReview: {error!r:.200}")
    try:
        return web.json_response(await review(review_request, headers=dict(request.headers)))
    except Exception:
        log.exception("a review failed; the job is admitted")
    warning = "not validated at admission: the webhook failed; the controller checks it later"
    answer = {"uid": uid, "allowed": True, "warnings": [warning]}
    return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})
