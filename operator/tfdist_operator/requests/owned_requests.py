"""The requests for the objects of jobs other than pods and Secrets; every response is metadata only."""

from typing import Any, Final

from tfdist.desired.owned_kinds import kind_of
from tfdist.render import names
from tfdist.render.owned_kind import OwnedKind
from tfdist_operator.cache.owned_cache import OwnedObject, owned_object
from tfdist_operator.kube.client import JSON_PATCH, METADATA, METADATA_LIST, ApiClient
from tfdist_operator.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NameTakenError,
    NotFoundError,
    UnavailableError,
)
from tfdist_operator.kube.json_bodies import Json, list_items

_UNPROCESSABLE: Final = 422


class OwnedRequests:
    """Creates, changes and deletes the objects of jobs. Every method raises `ApiError` if the request fails."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def apply(self, manifest: Json, cached: OwnedObject | None) -> Json:
        """Create or patch an object so that it agrees with `manifest`, and return it as stored.

        Creating and patching cost the API server a fraction of server-side apply.

        Args:
            manifest: the whole manifest; fields of `spec` that it lacks are left unchanged.
            cached: the existing object of that name; None if the cache has none.

        Raises:
            NameTakenError: an object of that name exists and is not the job's; it is not changed.
            UnavailableError: the object was replaced during the call; a retry may succeed.
        """
        kind = kind_of(manifest)
        if cached is None:
            try:
                return await self._send("POST", kind, _namespace(manifest), "", body=manifest)
            except AlreadyExistsError:
                cached = await self.find(kind, _namespace(manifest), manifest["metadata"]["name"])
        if cached is None:
            raise UnavailableError(409, "Replaced", f"{_description(manifest)} was deleted while it was created")
        # An object that another client has created is never taken over, whatever its content.
        if not cached.belongs_to(manifest["metadata"]["labels"][names.JOB_UID_LABEL]):
            text = (
                f"a {_description(manifest)} is there that is not this job's: delete it, or give the job another name"
            )
            raise NameTakenError(409, "AlreadyExists", text)
        return await self._change(manifest, cached)

    async def _change(self, manifest: Json, cached: OwnedObject) -> Json:
        """Set labels, owner and the fields of `spec` of the object with the UID of `cached`."""
        kind, meta = kind_of(manifest), manifest["metadata"]
        # The patch applies only to the object that was checked: another one may have its name since.
        patch: list[Json] = [{"op": "test", "path": "/metadata/uid", "value": cached.uid}]
        # JSON Patch cannot add a member to a map that is absent.
        if cached.labels:
            patch += [_add(f"/metadata/labels/{_escape(k)}", v) for k, v in meta["labels"].items()]
        else:
            patch.append(_add("/metadata/labels", meta["labels"]))
        # Another client has removed the owner reference; the label with the UID proves that the object is the job's
        # (ADR 21).
        if not cached.owner_uid:
            patch.append(_add("/metadata/ownerReferences", meta["ownerReferences"]))
        patch += [_add(f"/spec/{_escape(k)}", v) for k, v in manifest["spec"].items()]
        try:
            return await self._send("PATCH", kind, meta["namespace"], meta["name"], patch, content_type=JSON_PATCH)
        except NotFoundError as error:
            raise UnavailableError(
                409, "Replaced", f"{_description(manifest)} was deleted while it was changed"
            ) from error
        except InvalidError as error:
            # A failed `test` answers 422, as an immutable field does: only the UID shows which one it was.
            if error.code != _UNPROCESSABLE:
                raise
            now = await self.find(kind, meta["namespace"], meta["name"])
            if now is None or now.uid != cached.uid:
                raise UnavailableError(
                    409, "Replaced", f"{_description(manifest)} was replaced while it was changed"
                ) from error
            text = f"{_description(manifest)} cannot be made what the job needs: delete it, and it is created again"
            raise NameTakenError(error.code, error.reason, f"{text} ({error.message})") from error

    async def find(self, kind: OwnedKind, namespace: str, name: str) -> OwnedObject | None:
        """Return the object of a name, created by any client."""
        query = {"fieldSelector": f"metadata.name={name}"}
        page = await self._send("GET", kind, namespace, "", query=query, accept=METADATA_LIST)
        return next((owned_object(item, kind) for item in list_items(page)), None)

    async def delete(self, kind: OwnedKind, cached: OwnedObject) -> None:
        """Delete the object with this UID; do nothing if it is already deleted or replaced."""
        body = {"propagationPolicy": "Background", "preconditions": {"uid": cached.uid}}
        try:
            await self._send("DELETE", kind, cached.key.namespace, cached.name, body=body)
        except (NotFoundError, ConflictError):
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
