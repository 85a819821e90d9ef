"""Object stores of this machine: Versity's gateway with the protocol of Amazon S3, and a server like Google's."""

import json
import socket
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from support.gcs_xml import xml_interface
from support.ports import free_ports
from support.schedulers.program import running

BUCKET: Final = "training-data"
GS_IS_LONG: Final = pytest.mark.parametrize(
    "object_server", ["s3", pytest.param("gs", marks=pytest.mark.long)], indirect=True, scope="session"
)
"""Of a test that `make test` runs on one of the servers only."""
_KEY, _SECRET = "an-access-key", "a-secret-key"


@dataclass(frozen=True)
class ObjectServer:
    """A server with the bucket `BUCKET`."""

    scheme: str
    """`s3` or `gs`."""
    url: str

    def environment(self, url: str | None = None, **changes: str) -> Mapping[str, str]:
        """Return the variables of a client of this server, or of the proxy to it at `url`."""
        address = url or self.url
        if self.scheme == "gs":
            return {"GOOGLE_BASE_URL": address, "GOOGLE_SKIP_SIGNATURE": "true"} | changes
        keys = {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET, "AWS_REGION": "us-east-1"}
        return {"AWS_ENDPOINT_URL": address} | keys | changes

    def writable_environment(self, url: str) -> Mapping[str, str]:
        """Return the variables of a client that writes, of the server or proxy at `url`."""
        if self.scheme != "gs":
            return self.environment(url)
        # Requests without a token need the permission of a key: reads alone need none.
        unsigned = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": "",
                    "private_key_id": ""}  # fmt: skip
        return {"GOOGLE_BASE_URL": url, "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(unsigned)}

    @contextmanager
    def writable(self) -> Iterator[str]:
        """Give the URL of this server for clients that write."""
        if self.scheme == "gs":
            with xml_interface(self.url) as url:
                yield url
        else:
            yield self.url

    def put(self, key: str, content: bytes) -> str:
        """Write an object, and return its URL."""
        if self.scheme == "gs":
            name = urllib.parse.quote(key, safe="")
            _post(f"{self.url}/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={name}", content)
        else:
            self._client().put(key, content)
        return self.address(key)

    def delete(self, key: str) -> None:
        """Delete an object."""
        if self.scheme == "gs":
            name = urllib.parse.quote(key, safe="")
            request = urllib.request.Request(f"{self.url}/storage/v1/b/{BUCKET}/o/{name}", method="DELETE")
            urllib.request.urlopen(request).close()
        else:
            self._client().delete(key)

    def address(self, key: str) -> str:
        """Return the URL of an object."""
        return f"{self.scheme}://{BUCKET}/{key}"

    def _client(self) -> Any:
        store = import_module("obstore.store").S3Store
        return store(
            BUCKET,
            endpoint=self.url,
            access_key_id=_KEY,
            secret_access_key=_SECRET,
            client_options={"allow_http": True},
        )


def _post(url: str, content: bytes) -> None:
    urllib.request.urlopen(urllib.request.Request(url, content, method="POST")).close()


@contextmanager
def object_server(scheme: str, folder: Path) -> Iterator[ObjectServer]:
    """Run a server for `s3` or `gs` until the block ends, built if it is not current; its files are in `folder`."""
    (port,) = free_ports(1)
    server = ObjectServer(scheme, f"http://127.0.0.1:{port}")
    objects, metadata = folder / "objects", folder / "metadata"
    for each in (objects / BUCKET, metadata):
        each.mkdir(parents=True)
    if scheme == "s3":
        address = [f"--port=127.0.0.1:{port}", "--quiet"]
        keys = {"ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET}
        name, options = "versitygw", [*address, "posix", f"--sidecar={metadata}", str(objects)]
    else:
        address = ["-scheme=http", "-host=127.0.0.1", f"-port={port}", f"-public-host=127.0.0.1:{port}"]
        keys = {}
        name, options = "fake-gcs-server", [*address, f"-filesystem-root={metadata}", f"-data={objects}"]

    def is_ready() -> bool:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        return False

    with running(name, options, folder, is_ready, **keys):
        yield server
