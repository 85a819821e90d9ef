"""As much of the API server as the controller's requests about one job meet: a store by path, and refusals on demand.

What the real one does is tested against the real one (`tests/integration`); here a test decides what is answered, such
as a refusal that lasts for two requests.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from tfdist_operator.kube.client import JSON_PATCH, Client

Json = dict[str, Any]
Refusal = Callable[[str, str], tuple[int, str, str, str] | None]


class FakeApi:
    """Objects by path. `asked` has every request as `METHOD path`; `refuse` may answer one.

    A refusal is a code, Kubernetes' word for it, a message, and the reason of its cause.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.asked: list[str] = []
        self.refuse: Refusal = lambda _method, _path: None
        self._version = 100

    def put(self, path: str, content: Json) -> Json:
        """Store an object at its path, as the newest version, and return it."""
        self._version += 1
        meta = {"uid": path} | content.get("metadata", {}) | {"resourceVersion": str(self._version)}
        stored = self.objects[path] = content | {"metadata": meta}
        return stored

    def requests(self, resource: str) -> list[str]:
        """Return the methods of the requests about a plural."""
        return [asked.split()[0] for asked in self.asked if f"/{resource}" in asked]

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request."""
        method, path = request.method, request.path
        self.asked.append(f"{method} {path}")
        if refusal := self.refuse(method, path):
            return _answer(*refusal)
        body = orjson.loads(await request.read() or b"{}")
        if method == "GET":
            items = [o for p, o in self.objects.items() if p.split("/")[-2] == path.split("/")[-1]]  # of all namespaces
            return web.json_response({"items": items or None, "metadata": {}})  # as the real one for metadata alone
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            return (
                _answer(409, "AlreadyExists", "") if path in self.objects else web.json_response(self.put(path, body))
            )
        if path.removesuffix("/status") not in self.objects:
            return _answer(404, "NotFound", "") if method == "PATCH" else web.json_response({})
        return self._patch(path.removesuffix("/status"), body, request.content_type)

    def _patch(self, path: str, body: Any, content_type: str) -> web.Response:
        found = self.objects[path]
        if content_type != JSON_PATCH:
            return web.json_response(self.put(path, _merged(found, body)))
        test, *changes = body
        if test["value"] not in found["metadata"]["labels"].values():
            return _answer(422, "Invalid", "testing value failed")
        spec = found["spec"] | {change["path"].removeprefix("/spec/"): change["value"] for change in changes}
        return web.json_response(self.put(path, found | {"spec": spec}))


def _merged(target: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386)."""
    result = {k: v for k, v in target.items() if patch.get(k, v) is not None}
    for name, value in patch.items():
        if isinstance(value, dict):
            result[name] = _merged(result.get(name, {}), value)
        elif value is not None:
            result[name] = value
    return result


def _answer(code: int, reason: str, message: str, cause: str = "") -> web.Response:
    body = {"reason": reason, "message": message, "details": {"causes": [{"reason": cause}]}}
    return web.json_response(body, status=code)


@asynccontextmanager
async def served() -> AsyncIterator[tuple[FakeApi, Client]]:
    """Serve a fake API server on a free port, with a client of it, until the block ends."""
    fake, app = FakeApi(), web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with Client(f"http://127.0.0.1:{runner.addresses[0][1]}", None, dict) as client:
            yield fake, client
    finally:
        await runner.cleanup()
