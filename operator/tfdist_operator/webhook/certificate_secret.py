"""Keeps the webhook's certificate in a Secret, and its CA in the ValidatingWebhookConfiguration.

Every replica does so, not only the leader: all of them serve. The chart creates both objects, so that the controller
needs the rights to read and change only these two. If two replicas renew at the same time, the API server rejects the
second write by the Secret's resource version, and the second replica uses the certificate of the first.
"""

import asyncio
import base64
import logging
import random
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tfdist_operator.kube.client import JSON_PATCH, ApiClient
from tfdist_operator.kube.errors import ApiError
from tfdist_operator.webhook.certificates import AUTHORITY, CERTIFICATE, KEY, Pems, renew_certificates

log = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 60.0
"""Between two checks: changes by a `helm upgrade` or by another replica take effect within this time."""
_RETRY_SECONDS: Final = 5.0
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def webhook_certificate(client: ApiClient, name: str, namespace: str) -> "WebhookCertificate":
    """Return the certificate of the webhook by the name of its Service and Secret in the controller's namespace."""
    secret = f"/api/v1/namespaces/{namespace}/secrets/{name}"
    hosts = (f"{name}.{namespace}.svc", "localhost", "127.0.0.1")
    return WebhookCertificate(client, secret, f"{CONFIGURATIONS}/{name}.{namespace}", hosts)


class WebhookCertificate:
    """The certificate of this replica's server.

    Args:
        client: a client without the leader's fence, since every replica writes.
        secret: path of the Secret.
        configuration: path of the ValidatingWebhookConfiguration.
        hosts: DNS names and addresses of the webhook for the API server.
        sleep: waits for a number of seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        secret: str,
        configuration: str,
        hosts: Sequence[str],
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._secret = secret
        self._configuration = configuration
        self._hosts = hosts
        self._sleep = sleep
        self._loaded: Pems = {}
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        """For the server; a new certificate is used from the next connection on."""
        self.ready = asyncio.Event()
        """Set once a certificate is loaded."""

    async def run(self) -> None:
        """Check, renew and publish until cancelled."""
        while True:
            seconds = _INTERVAL_SECONDS
            try:
                await self.check()
            except (ApiError, LookupError, TypeError, ValueError, OSError) as error:
                log.warning("certificate of the webhook cannot be checked; repeated", extra={"error": repr(error)})
                seconds = _RETRY_SECONDS
            await self._sleep(seconds * random.uniform(0.8, 1.2))  # noqa: S311  replicas need not read at the same time

    async def check(self) -> None:
        """Renew the certificate if it is missing or about to expire, load it, and publish its CA.

        Raises:
            ApiError: the API server rejects a request or does not answer, or another replica has renewed it first.
            LookupError, TypeError, ValueError: the objects have unexpected content.
        """
        secret = await self._client.request("GET", self._secret, resource="secrets")
        pems: Pems = {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
        if new := renew_certificates(pems, self._hosts, datetime.now(UTC)):
            encoded = {name: base64.b64encode(pem).decode() for name, pem in new.items()}
            # With the version that was read: of two replicas that renew at the same time one is rejected, and uses the
            # certificate of the other (ADR 20).
            await self._client.request("PUT", self._secret, resource="secrets", body={**secret, "data": encoded})
            log.info("certificate of the webhook is renewed")
            pems = new
        # Before the certificate is used: the API server must trust it by then.
        await self._publish(base64.b64encode(pems[AUTHORITY]).decode())
        if pems != self._loaded:
            self._load(pems)
        self.ready.set()

    def _load(self, pems: Pems) -> None:
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:  # Python's ssl module reads only files
            file.write(pems[CERTIFICATE] + pems[KEY])
            file.flush()
            self.context.load_cert_chain(file.name)
        self._loaded = pems

    async def _publish(self, authority: str) -> None:
        resource = "validatingwebhookconfigurations"
        configuration = await self._client.request("GET", self._configuration, resource=resource)
        changes: list[dict[str, Any]] = [
            {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": authority}
            for number, webhook in enumerate(configuration.get("webhooks") or ())
            if webhook["clientConfig"].get("caBundle") != authority
        ]
        if changes:
            version = configuration["metadata"]["resourceVersion"]
            # Webhooks are addressed by number: they may have been reordered since they were read.
            body = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *changes]
            path = self._configuration
            await self._client.request("PATCH", path, resource=resource, body=body, content_type=JSON_PATCH)
            log.info("authority of the webhook is published")
