"""Many concurrent requests to the API server, cheap enough not to affect the measurement."""

import asyncio
import base64
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from tfdist_cluster.errors import ClusterError

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One request that must succeed."""

    method: str
    path: str
    body: Json
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Bulk:
    """Sends requests with the rights of a kubeconfig's user."""

    server: str
    context: ssl.SSLContext

    @classmethod
    def of(cls, kubeconfig: Path) -> "Bulk":
        """Read a kubeconfig with embedded certificates, as kubeadm writes it."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        chain = kubeconfig.with_name("client.pem")  # Python's ssl module reads files alone
        chain.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
        context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
        context.load_cert_chain(chain)
        return cls(cluster["server"], context)

    def send(self, requests: Sequence[Request], in_flight: int = 64) -> None:
        """Send all requests, in order, a limited number at a time.

        Raises:
            ClusterError: one was rejected.
        """
        asyncio.run(self._send(requests, in_flight))

    async def _send(self, requests: Sequence[Request], in_flight: int) -> None:
        connector = aiohttp.TCPConnector(limit=in_flight, ssl=self.context)
        async with aiohttp.ClientSession(self.server, connector=connector) as session:
            remaining = iter(requests)
            await asyncio.gather(*(self._worker(session, remaining) for _ in range(min(in_flight, len(requests)))))

    async def _worker(self, session: aiohttp.ClientSession, remaining: Any) -> None:
        for request in remaining:
            headers = {"Content-Type": request.content_type}
            body = orjson.dumps(request.body)
            async with session.request(request.method, request.path, data=body, headers=headers) as answer:
                text = await answer.read()
                if not answer.ok:
                    response_text = text.decode(errors="replace")[:500]
                    raise ClusterError(f"{request.method} {request.path}: {answer.status} {response_text}")
