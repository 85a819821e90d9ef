"""The logs of containers as a kubelet serves them: `/containerLogs/NAMESPACE/POD/CONTAINER`, with cuts by the test."""

import datetime as dt
import ipaddress
import pathlib
import re
import select
import ssl
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.api import Api
from support.kubelet import NODES

_PIECE: Final = 2**16
_SECOND: Final = len("2030-01-01T00:00:00")


class Log:
    """The log of one container: lines with their times, RFC 3339 with nanoseconds, in the order of writing."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, bytes]] = []
        self.ended = False
        self.cuts: list[int] = []
        """The next streams end after so many bytes."""
        self.streams = 0
        self.stalls = 0
        """How often a stream has waited for a second because its receiver took nothing."""
        self.sent = 0
        """Lines that the newest stream has sent, into buffers of the system at least."""
        self.changed = threading.Condition()

    def write(self, *lines: str | bytes, at: str) -> None:
        """Append lines of one time, such as `2030-01-01T00:00:00.5Z`."""
        with self.changed:
            self._lines += [(at, line.encode() if isinstance(line, str) else line) for line in lines]
            self.changed.notify_all()

    def end(self) -> None:
        """End the container: streams that follow the log end."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def cut_after(self, *sizes: int) -> None:
        """Cut the next streams after so many bytes each."""
        with self.changed:
            self.cuts += sizes

    def first(self, query: Mapping[str, str]) -> int:
        """Return the number of the first line that a request is for."""
        return max(0, len(self._lines) - int(query["tailLines"])) if "tailLines" in query else 0

    @property
    def is_blocked(self) -> bool:
        """Whether a stream has lines to send that no buffer of the system takes."""
        return self.stalls > 1 and self.sent < len(self._lines)

    def content(self, start: int, query: Mapping[str, str]) -> tuple[bytes, int]:
        """Return what a request receives from a line on, and the number of lines."""
        since = query.get("sinceTime", "")[:_SECOND]
        chosen = [(at, text) for at, text in self._lines[start:] if at[:_SECOND] >= since]
        stamped = query.get("timestamps") == "true"
        return b"".join((f"{at} ".encode() if stamped else b"") + text + b"\n" for at, text in chosen), len(self._lines)


class LogKubelet:
    """The logs of the pods of one node, by pod and container."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, str], Log] = {}
        self.requests: list[dict[str, str]] = []

    def log(self, pod: str, container: str = "tensorflow") -> Log:
        """Return the log of a container, at first an empty one."""
        return self._logs.setdefault((pod, container), Log())

    def end_all(self) -> None:
        """End all containers."""
        for log in list(self._logs.values()):
            log.end()


class _Cut(Exception):  # noqa: N818  not an error
    """The test cuts the stream."""


def _handler(kubelet: LogKubelet) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            match = re.fullmatch(r"/containerLogs/[^/]+/([^/]+)/([^/]+)", urlsplit(self.path).path)
            if match is None:
                self.send_error(404)
                return
            query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
            kubelet.requests.append({"pod": match[1], "container": match[2]} | query)
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = True
            with suppress(_Cut, OSError):
                self._send_log(kubelet.log(match[1], match[2]), query)
                self._chunk(b"")

        def _send_log(self, log: Log, query: Mapping[str, str]) -> None:
            with log.changed:
                log.streams += 1
                allowed = log.cuts.pop(0) if log.cuts else None
                self._log = log
                start = log.first(query)
            while True:
                with log.changed:
                    content, start = log.content(start, query)
                    is_last = log.ended or query.get("follow") != "true"
                    if not content and not is_last:
                        log.changed.wait(0.5)
                        continue
                if allowed is not None and allowed <= len(content):
                    self._chunk(content[:allowed]) if allowed else None
                    raise _Cut
                if content:
                    self._chunk(content)
                    log.sent = start
                    allowed = None if allowed is None else allowed - len(content)
                if is_last:
                    return

        def _chunk(self, content: bytes) -> None:
            for start in range(0, len(content) or 1, _PIECE):
                piece = content[start : start + _PIECE]
                while not select.select([], [self.connection], [], 1)[1]:
                    self._log.stalls += 1
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler


@contextmanager
def log_kubelet(api: Api, node: str, folder: pathlib.Path) -> Iterator[LogKubelet]:
    """Serve the logs of the pods of `node` until the block ends."""
    kubelet = LogKubelet()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(kubelet))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_certificate(folder))
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": server.server_address[1]}},
    }
    api.do("PATCH", f"{NODES}/{node}/status", {"status": status}, "merge-patch")
    try:
        yield kubelet
    finally:
        kubelet.end_all()
        server.shutdown()
        thread.join()
        server.server_close()


def _certificate(folder: pathlib.Path) -> pathlib.Path:
    """Return a file with a certificate for 127.0.0.1 that has signed itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubelet")])
    now = dt.datetime.now(dt.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - dt.timedelta(days=1),
        not_valid_after=now + dt.timedelta(days=1),
    )
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / f"kubelet-{uuid.uuid4().hex[:8]}.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
