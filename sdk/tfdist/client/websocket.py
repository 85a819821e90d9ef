"""WebSocket connections to the API server by the official package `kubernetes`, with the errors of the client.

Its functions `stream` and `portforward` turn each error, Ctrl-C included, into one text; its `PortForward` prints a
traceback when a connection is cut. So only what opens a connection is used here: TLS, proxy and protocol.
"""

from typing import Any, Final
from urllib.parse import urlencode

from kubernetes.stream import ws_client
from websocket import WebSocketBadStatusException, WebSocketException

from tfdist.client import errors
from tfdist.client.api_server import ApiServer

Pairs = list[tuple[str, str]]
"""Parameters of a request; a name may occur several times."""

# The package has no types.
_exec_connection: Any = ws_client.WSClient
_plain_connection: Any = ws_client.create_websocket
_url: Any = ws_client.get_websocket_url

CONNECTION_ERRORS: Final = (WebSocketException, OSError)
"""What a connection raises when it is cut."""


def open_exec(api: ApiServer, path: str, query: Pairs) -> Any:
    """Return a connection to a process in a pod (`kubernetes.stream.ws_client.WSClient`).

    Raises:
        ClientError: the API server rejects it, or does not answer.
    """
    url, headers = _signed_request(api, path, query)
    try:
        return _exec_connection(api.connection.configuration, url, headers, False, binary=True)
    except CONNECTION_ERRORS as error:
        raise _client_error(api, path, error) from None


def open_port(api: ApiServer, path: str, port: int) -> Any:
    """Return a connection to a port of a pod (`websocket.WebSocket`).

    Raises:
        ClientError: the API server rejects it, or does not answer.
    """
    url, headers = _signed_request(api, path, [("ports", str(port))])
    try:
        return _plain_connection(api.connection.configuration, url, headers)
    except CONNECTION_ERRORS as error:
        raise _client_error(api, path, error) from None


def _signed_request(api: ApiServer, path: str, query: Pairs) -> tuple[str, dict[str, str]]:
    url, headers = api.signed(path)
    return _url(f"{url}?{urlencode(query)}"), headers


def _client_error(api: ApiServer, path: str, error: Exception) -> errors.ClientError:
    if isinstance(error, WebSocketBadStatusException):
        api_error = api.error(error.status_code, error.resp_body or b"", path)
        # 404 without the name of an object is the answer of a kubelet
        return (
            errors.NotFound("the pod has ended, or was deleted")
            if isinstance(api_error, errors.NotInstalled)
            else api_error
        )
    return errors.NoCluster(f"{api.connection} does not answer: {' '.join(str(error).split()) or type(error).__name__}")
