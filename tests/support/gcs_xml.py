"""The writes of Google's XML interface, which fake-gcs-server lacks, as requests to its JSON interface."""

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

POLL_SECONDS: Final = 0.02
"""Interval in which a server checks whether it is to stop."""


@contextmanager
def xml_interface(server: str) -> Iterator[str]:
    """Give the URL of a server with this interface to the fake-gcs-server at `server`, until the block ends."""
    handler = type("Handler", (_Handler,), {"server_url": server, "uploads": {}})
    listener = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, args=(POLL_SECONDS,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}"
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Serves the interface; `xml_interface` makes a class of its own for each server."""

    server_url: str
    uploads: dict[str, dict[int, bytes]]
    """Parts of the uploads that are not complete, by their names."""

    def do_GET(self) -> None:
        self._forward(self.path, None)

    do_HEAD = do_GET  # noqa: N815  the name that the library calls

    def do_DELETE(self) -> None:
        bucket, key = self._object()
        self._forward(f"/storage/v1/b/{bucket}/o/{key}", None)

    def do_PUT(self) -> None:
        body, query = self._body(), self._query()
        bucket, key = self._object()
        if "uploadId" in query:
            self.uploads[query["uploadId"]][int(query["partNumber"])] = body
            self._reply(200, {"ETag": f'"{query["partNumber"]}"'})
        elif source := self.headers.get("x-goog-copy-source"):
            _, _, name = urllib.parse.unquote(source).lstrip("/").partition("/")
            path = f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}/rewriteTo/b/{bucket}/o/{key}"
            self._forward(path, b"{}", "POST")
        else:
            self._write(bucket, key, body, self.headers.get("x-goog-if-generation-match"))

    def do_POST(self) -> None:
        query = self._query()
        self._body()
        if "uploads" in query:
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = {}
            self._reply(200, {}, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId>"
                        "</InitiateMultipartUploadResult>")  # fmt: skip
            return
        parts = self.uploads.pop(query["uploadId"])
        self._write(*self._object(), b"".join(parts[number] for number in sorted(parts)), None)

    def _write(self, bucket: str, key: str, content: bytes, generation: str | None) -> None:
        condition = f"&ifGenerationMatch={generation}" if generation is not None else ""
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={key}{condition}"
        self._forward(path, content, "POST")

    def _forward(self, path: str, body: bytes | None, method: str | None = None) -> None:
        kept = {name: value for name, value in self.headers.items() if name.lower() == "range"}
        request = urllib.request.Request(f"{self.server_url}{path}", body, kept, method=method or self.command)
        try:
            with urllib.request.urlopen(request) as response:
                content, status, headers = response.read(), response.status, dict(response.headers)
        except urllib.error.HTTPError as error:
            content, status, headers = error.read(), error.code, {}
        names = {"etag", "last-modified", "content-range", "x-goog-generation", "content-type", "content-length"}
        kept = {name: value for name, value in headers.items() if name.lower() in names}
        if method == "POST" and status == 200:
            resource: Any = json.loads(content)
            resource = resource.get("resource", resource)
            etag = resource["etag"].strip('"')
            kept = {"ETag": f'"{etag}"', "x-goog-generation": str(resource["generation"])}
            content = f"<CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>".encode()
        self._reply(status, kept, content)

    def _reply(self, status: int, headers: dict[str, str], content: str | bytes = b"") -> None:
        body = content.encode() if isinstance(content, str) else content
        lengths = [value for name, value in headers.items() if name.lower() == "content-length"]
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() != "content-length":
                self.send_header(name, value)
        self.send_header("Content-Length", lengths[0] if lengths and self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _query(self) -> dict[str, str]:
        text = urllib.parse.urlsplit(self.path).query
        return dict(urllib.parse.parse_qsl(text, keep_blank_values=True))

    def _object(self) -> tuple[str, str]:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        bucket, _, key = path.partition("/")
        return bucket, urllib.parse.quote(key, safe="")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it so
        pass
