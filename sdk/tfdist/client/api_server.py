"""Requests to the API server by the official package `kubernetes`, with the errors of `tfdist.client.errors`.

Paths and JSON instead of the package's generated methods: a TFDistJob has none, and the log of a pod can only be
resumed with `sinceTime`, which theirs lacks.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from tfdist.api.resource import API_VERSION, PLURAL
from tfdist.api.sweep_resource import SWEEP_API_VERSION, SWEEP_PLURAL
from tfdist.client import errors
from tfdist.client.kubeconfig import Connection

Json = dict[str, Any]
Query = Mapping[str, Any]
"""Parameters of a request by name."""

MERGE_PATCH: Final = "application/merge-patch+json"
METADATA_OF_LIST: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Type of a list of objects without their content."""
_JSON: Final = "application/json, */*"

_PAGE: Final = 500
_TIMEOUT: Final = (5.0, 60.0)
"""Seconds to connect, and between two parts of an answer."""
_STREAM_TIMEOUT: Final = (5.0, 120.0)
"""The same of a stream: the API server sends a bookmark of a watch every minute."""
_CONNECTIONS: Final = 1024
"""Connections that are kept for later requests. urllib3 reports each one above in a warning; a log has one each."""
_DENIED: Final = ' is forbidden: User "'
"""In the message about a right that the user lacks; a quota or policy rejects with another message."""
_CREDENTIALS_OF: Final = ["BearerToken"]
"""Name that the package has for the only kind of credentials in a header."""


class ApiServer:
    """Sends requests with the user's own rights."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        connection.configuration.retries = False
        connection.configuration.connection_pool_maxsize = _CONNECTIONS
        self._client = ApiClient(connection.configuration)

    def request(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        content_type: str | None = None,
        query: Query | None = None,
        accept: str = _JSON,
    ) -> Json:
        """Send a request and return the JSON of the answer.

        Args:
            method: HTTP method.
            path: URL path, such as `/api/v1/namespaces/default/pods`.
            body: sent as JSON.
            content_type: the type of patch.
            query: parameters; None leaves one out.
            accept: the type of the answer.

        Raises:
            ClientError: the request failed.
        """
        with self._response(method, path, body, content_type, query or {}, _TIMEOUT, accept) as response:
            with self._connected():
                content = response.read()
            answer: Json = json.loads(content) if content else {}
            return answer

    def delete(self, path: str, *, uid: str | None = None, version: str | None = None) -> None:
        """Delete an object and then, in the background, what it owns; with `uid` only the object with this UID.

        With `version`, its `metadata.resourceVersion`, it is deleted only if it has not changed.

        Raises:
            NotFound: the object does not exist.
            Conflict: another object has this path, or the object has changed.
            ClientError: the request failed.
        """
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        given = {"uid": uid, "resourceVersion": version}
        preconditions = {name: value for name, value in given.items() if value}
        self.request("DELETE", path, options | ({"preconditions": preconditions} if preconditions else {}))

    @contextlib.contextmanager
    def stream(self, path: str, query: Query | None = None) -> Iterator[Iterator[bytes]]:
        """Yield the parts of an answer as they arrive, for example of a log or a watch.

        Raises:
            ClientError: the request failed, or the connection was cut within the answer.
        """
        with self._response("GET", path, None, None, query or {}, _STREAM_TIMEOUT) as response:
            yield self._parts(response)

    def items(self, path: str, query: Query | None = None) -> Iterator[Json]:
        """Yield the objects of a list, page by page."""
        continuation: str | None = None
        while True:
            page = self.request("GET", path, query={"limit": _PAGE, "continue": continuation, **(query or {})})
            yield from page["items"]
            continuation = page["metadata"].get("continue")
            if not continuation:
                return

    def _parts(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        with self._connected():
            yield from response.stream(2**16)

    @contextlib.contextmanager
    def _response(
        self,
        method: str,
        path: str,
        body: Json | None,
        content_type: str | None,
        query: Query,
        timeout: tuple[float, float],
        accept: str = _JSON,
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        headers = {"Accept": accept, "Content-Type": content_type or "application/json"}
        parameters = [(key, _text(value)) for key, value in query.items() if value is not None]
        request = self._client.param_serialize(
            method, path, query_params=parameters, header_params=headers, body=body, auth_settings=_CREDENTIALS_OF
        )
        with self._connected():
            response = self._client.call_api(*request, _request_timeout=timeout).response
        try:
            if response.status >= HTTPStatus.BAD_REQUEST:
                raise self.error(response.status, response.read(), path)
            yield response
        finally:
            # An answer that is not read to its end cannot share its connection with the next request.
            response.close()
            response.release_conn()

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Turn errors of the connection into errors of the client."""
        try:
            yield
        except ApiException as error:
            raise errors.NoCluster(f"{self.connection}: {_first_line(error.reason)}") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            kind = errors.NotConnected if _is_unsent(error) else errors.NoCluster
            raise kind(f"{self.connection} does not answer: {_cause(error)}") from None

    def signed(self, path: str) -> tuple[str, dict[str, str]]:
        """Return the URL of a path, and the headers with the user's credentials in lower case."""
        _, url, headers, *_ = self._client.param_serialize("GET", path, auth_settings=_CREDENTIALS_OF)
        return url, {name.lower(): str(value) for name, value in headers.items()}

    def error(self, code: int, content: bytes, path: str) -> errors.ClientError:
        """Return the error for an answer with a status of 400 or more."""
        try:
            status: Json = json.loads(content)
        except ValueError:
            status = {}
        message = status.get("message") or _first_line(content.decode(errors="replace")) or f"HTTP status {code}"
        kind = _kind(code, status)
        if kind is errors.NotInstalled:
            return kind(
                f"{self.connection} does not serve {path}: TFDist is not installed there, or in another version. "
                "Install its chart: docs/installation.md"
            )
        if kind is errors.Unauthorized:
            return kind(f"{self.connection} rejects your credentials: log in to the cluster again")
        if kind is errors.Forbidden and _DENIED in message:
            return kind(f"{message}; ask an administrator for the role edit there; tfdist doctor shows your rights")
        return kind(message)


def _kind(code: int, status: Json) -> type[errors.ClientError]:
    by_code: dict[int, type[errors.ClientError]] = {
        401: errors.Unauthorized,
        403: errors.Forbidden,
        404: errors.NotFound if status.get("details", {}).get("name") else errors.NotInstalled,
        409: errors.AlreadyExists if status.get("reason") == "AlreadyExists" else errors.Conflict,
        429: errors.Unavailable,
    }
    return by_code.get(code, errors.Unavailable if code >= HTTPStatus.INTERNAL_SERVER_ERROR else errors.Invalid)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_unsent(error: BaseException) -> bool:
    """Return whether an error of urllib3 means that no connection could be made."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _is_unsent(reason)
    return isinstance(error, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError)


def _cause(error: BaseException) -> str:
    """Return the innermost reason of an error of urllib3, such as `Connection refused`."""
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _cause(reason)
    inner = error.__cause__ or error.__context__
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return _first_line(str(error)) or type(error).__name__


def _first_line(text: Any) -> str:
    return " ".join(str(text or "").split("\n"))[:500].strip()


def jobs_path(namespace: str | None) -> str:
    """Return the path of the jobs of a namespace, or with None of all."""
    return _collection_path(API_VERSION, PLURAL, namespace)


def sweeps_path(namespace: str | None) -> str:
    """Return the path of the sweeps of a namespace, or with None of all."""
    return _collection_path(SWEEP_API_VERSION, SWEEP_PLURAL, namespace)


def pods_path(namespace: str) -> str:
    """Return the path of the pods of a namespace."""
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"


def object_path(collection: str, name: str) -> str:
    """Return the path of an object of a collection."""
    return f"{collection}/{quote(name, safe='')}"


def _collection_path(api_version: str, plural: str, namespace: str | None) -> str:
    inside = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"/apis/{api_version}{inside}/{plural}"
