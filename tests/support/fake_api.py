"""As much of the API server as the controller's requests about one job meet: a store by path, and rejections on demand.

What the real one does is tested against the real one (`tests/integration`); here a test decides what is answered, such
as a rejection that lasts for two requests.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import reduce
from operator import getitem
from typing import Any

import orjson
from aiohttp import web

from tfdist_operator.kube.client import JSON_PATCH, ApiClient

Json = dict[str, Any]
Rejection = Callable[[str, str], tuple[int, str, str, str] | None]


class FakeApi:
    """Objects by path. `asked` has every request as `METHOD path`, `bodies` those that changed something with theirs.

    `reject` may answer a request by an error and `answer` by any JSON; `validate` returns the messages for invalid
    fields of a patched object. `before` is awaited with the method of a request before it is answered.

    A rejection is a code, Kubernetes' name for it, a message, and the reason of its cause.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.asked: list[str] = []
        self.bodies: list[tuple[str, str, Any]] = []
        self.reject: Rejection = lambda _method, _path: None
        self.answer: Callable[[str, str], Any] = lambda _method, _path: None
        self.validate: Callable[[Json], Mapping[str, str]] = lambda _content: {}
        self.before: Callable[[str], Awaitable[None]] = _at_once
        self.version = 100

    def put(self, path: str, content: Json) -> Json:
        """Store an object at its path, as the newest version, and return it."""
        self.version += 1
        *_, namespace, _, name = path.split("/")
        meta = {"uid": path, "name": name, "namespace": namespace} | content.get("metadata", {})
        meta |= {"resourceVersion": str(self.version)}
        stored = self.objects[path] = content | {"metadata": meta}
        return stored

    def requests(self, resource: str, method: str = "") -> list[str]:
        """Return the methods of the requests about a plural, or of those with that method."""
        methods = [asked.split()[0] for asked in self.asked if f"/{resource}" in asked]
        return [verb for verb in methods if method in {"", verb}]

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one request of HTTP."""
        body = orjson.loads(await request.read() or b"{}")
        code, content = await self.respond(request.method, request.path, request.query, body, request.content_type)
        return web.json_response(content, status=code)

    async def respond(
        self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str
    ) -> tuple[int, Any]:
        """Return the code and the JSON that answer one request."""
        self.asked.append(f"{method} {path}")
        await self.before(method)
        if rejection := self.reject(method, path):
            return _answer(*rejection)
        if (answer := self.answer(method, path)) is not None:
            return 200, answer
        if method == "GET":
            return 200, self._list(path, query)
        self.bodies.append((method, path, body))
        return self._change(method, path, body, content_type)

    def _list(self, path: str, query: Mapping[str, str]) -> Json:
        items = [
            o for p, o in self.objects.items() if p.split("/")[-2] == path.rsplit("/", maxsplit=1)[-1]
        ]  # of all namespaces
        terms = [term.split("=") for term in query.get("fieldSelector", "").split(",") if term]
        items = [o for o in items if all(_field(o, path) == value for path, value in terms)]
        # With null for no items, as the real one for metadata alone.
        return {"items": items or None, "metadata": {"resourceVersion": str(self.version)}}

    def _change(self, method: str, path: str, body: Any, content_type: str) -> tuple[int, Json]:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            return _answer(409, "AlreadyExists", "") if path in self.objects else (200, self.put(path, body))
        if path.removesuffix("/status") not in self.objects:
            return _answer(404, "NotFound", "") if method == "PATCH" else (200, {})
        if method == "DELETE":
            return self._delete(path, body)
        return self._patch(path.removesuffix("/status"), body, content_type)

    def _delete(self, path: str, body: Any) -> tuple[int, Json]:
        """Begin the deletion of a pod, which has a grace period; delete another object at once."""
        stored = self.objects[path]
        if body.get("preconditions", {}).get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
            return _answer(409, "Conflict", "the UID in the precondition does not match")
        if "/pods/" not in path:
            return 200, self.objects.pop(path)
        if stored.get("status", {}).get("phase") in {"Failed", "Succeeded"}:
            del self.objects[path]
            without = {k: v for k, v in stored["metadata"].items() if k != "resourceVersion"}
            return 200, stored | {"metadata": without | {"deletionTimestamp": "2030-01-02T03:04:05Z"}}
        meta = {"deletionTimestamp": "2030-01-02T03:04:35Z", "deletionGracePeriodSeconds": 30}
        return 200, self.put(path, merge_patch(stored, {"metadata": meta}))

    def _patch(self, path: str, body: Any, content_type: str) -> tuple[int, Json]:
        stored = self.objects[path]
        if content_type != JSON_PATCH:
            if body["metadata"].get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
                return _answer(409, "Conflict", "the UID in the precondition does not match")
            version = stored["metadata"]["resourceVersion"]
            if body["metadata"].get("resourceVersion", version) != version:
                return _answer(409, "Conflict", "the object has been modified")
            merged = merge_patch(stored, body)
            if invalid := self.validate(merged):
                return _invalid(invalid)
            return 200, self.put(path, merged) if merged != stored else stored
        test, *changes = body
        if test != {"op": "test", "path": "/metadata/uid", "value": stored["metadata"]["uid"]}:
            return _answer(422, "Invalid", "testing value failed")
        changed = orjson.loads(orjson.dumps(stored))
        for change in changes:
            *steps, last = change["path"].split("/")[1:]
            target: Json = reduce(getitem, steps, changed)
            target[last.replace("~1", "/")] = change["value"]
        # As the real one, which leaves the version alone if nothing changes.
        return 200, stored if changed == stored else self.put(path, changed)


async def _at_once(_method: str) -> None:
    pass


def _field(stored: Json, path: str) -> Any:
    return reduce(getitem, path.split("."), stored)


def merge_patch(target: Json, patch: Json) -> Json:
    """Apply a JSON merge patch (RFC 7386)."""
    result = {k: v for k, v in target.items() if patch.get(k, v) is not None}
    for name, value in patch.items():
        if isinstance(value, dict):
            result[name] = merge_patch(result.get(name, {}), value)
        elif value is not None:
            result[name] = value
    return result


def _answer(code: int, reason: str, message: str, cause: str = "") -> tuple[int, Json]:
    return code, {"reason": reason, "message": message, "details": {"causes": [{"reason": cause}]}}


def _invalid(fields: Mapping[str, str]) -> tuple[int, Json]:
    """Return the answer of the real one to an object that its schema does not allow."""
    causes = [{"reason": "FieldValueInvalid", "field": path, "message": text} for path, text in fields.items() if path]
    message = "; ".join(f"{path}: Invalid value: {text}" for path, text in fields.items())
    return 422, {"reason": "Invalid", "message": message, "details": {"causes": causes}}


@asynccontextmanager
async def served() -> AsyncIterator[tuple[FakeApi, ApiClient]]:
    """Serve a fake API server on a free port, with a client of it, until the block ends."""
    fake, app = FakeApi(), web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        async with ApiClient(f"http://127.0.0.1:{runner.addresses[0][1]}", None, dict) as client:
            yield fake, client
    finally:
        await runner.cleanup()
