"""The requests for the objects of jobs other than pods and Secrets; every response is metadata only."""

from typing import Any, Final

from tfdist.render import names
from tfdist.render.owned_kinds import OwnedKind, kind_of
from tfdist_operator.cache.owned_cache import OwnedObject, owned_object
from tfdist_operator.kube.client import JSON_PATCH, METADATA, METADATA_LIST, Client, Json
from tfdist_operator.kube.errors import AlreadyExists, Conflict, Invalid, NameTaken, NotFound, Unavailable
from tfdist_operator.kube.pages import items

_UNPROCESSABLE: Final = 422


class OwnedRequests:
    """Creates, changes and deletes the objects of jobs. Every method raises `ApiError` if the request fails."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def apply(self, manifest: Json, cached: OwnedObject | None) -> Json:
        """Create or patch an object so that it agrees with `manifest`, and return it as stored.

        Creating and patching cost the API server a fraction of server-side apply.

        Args:
            manifest: the whole manifest; fields of `spec` that it lacks are left unchanged.
            cached: the existing object of that name; None if the cache has none.

        Raises:
            NameTaken: an object of that name exists and is not the job's; it is not changed.
            Unavailable: the object was replaced during the call; a retry may succeed.
        """
        kind = kind_of(manifest)
        if cached is None:
            try:
                return await self._send("POST", kind, _namespace(manifest), "", body=manifest)
            except AlreadyExists:
                cached = await self.find(kind, _namespace(manifest), manifest["metadata"]["name"])
        if cached is None:
            raise Unavailable(409, "Replaced", f"{_description(manifest)} was deleted while it was created")
        if not cached.belongs_to(manifest["metadata"]["labels"][names.JOB_UID_LABEL]):
            text = (
                f"a {_description(manifest)} is there that is not this job's: delete it, or give the job another name"
            )
            raise NameTaken(409, "AlreadyExists", text)
        return await self._change(manifest, cached)

    async def _change(self, manifest: Json, cached: OwnedObject) -> Json:
        """Set labels, owner and the fields of `spec` of the object with the UID of `cached`."""
        kind, meta = kind_of(manifest), manifest["metadata"]
        patch: list[Json] = [{"op": "test", "path": "/metadata/uid", "value": cached.uid}]
        if cached.labels:
            patch += [_add(f"/metadata/labels/{_escape(k)}", v) for k, v in meta["labels"].items()]
        else:
            patch.append(_add("/metadata/labels", meta["labels"]))
        if not cached.owner_uid:
            patch.append(_add("/metadata/ownerReferences", meta["ownerReferences"]))
        patch += [_add(f"/spec/{_escape(k)}", v) for k, v in manifest["spec"].items()]
        try:
            return await self._send("PATCH", kind, meta["namespace"], meta["name"], patch, content_type=JSON_PATCH)
        except NotFound as error:
            raise Unavailable(409, "Replaced", f"{_description(manifest)} was deleted while it was changed") from error
        except Invalid as error:
            if error.code != _UNPROCESSABLE:
                raise
            now = await self.find(kind, meta["namespace"], meta["name"])
            if now is None or now.uid != cached.uid:
                raise Unavailable(
                    409, "Replaced", f"{_description(manifest)} was replaced while it was changed"
                ) from error
            text = f"{_description(manifest)} cannot be made what the job needs: delete it, and it is created again"
            raise NameTaken(error.code, error.reason, f"{text} ({error.message})") from error

    async def find(self, kind: OwnedKind, namespace: str, name: str) -> OwnedObject | None:
        """Return the object of a name, created by any client."""
        query = {"fieldSelector": f"metadata.name={name}"}
        page = await self._send("GET", kind, namespace, "", query=query, accept=METADATA_LIST)
        return next((owned_object(item, kind) for item in items(page)), None)

    async def delete(self, kind: OwnedKind, cached: OwnedObject) -> None:
        """Delete the object with this UID; do nothing if it is already deleted or replaced."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": cached.uid}}
        try:
            await self._send("DELETE", kind, cached.key.namespace, cached.name, body=body)
        except (NotFound, Conflict):
            return

    async def _send(
        self,
        method: str,
        kind: OwnedKind,
        namespace: str,
        name: str,
        body: Json | list[Json] | None = None,
        **options: Any,
    ) -> Json:
        path = f"/{kind.path}/namespaces/{namespace}/{kind.plural}" + (f"/{name}" if name else "")
        options = {"accept": METADATA} | options
        return await self._client.request(method, path, resource=kind.plural, body=body, **options)


def _namespace(manifest: Json) -> str:
    return str(manifest["metadata"]["namespace"])


def _description(manifest: Json) -> str:
    return f"{manifest['kind']} {_namespace(manifest)}/{manifest['metadata']['name']}"


def _add(path: str, value: object) -> Json:
    return {"op": "add", "path": path, "value": value}


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
