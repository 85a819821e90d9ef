"""Address of the API server and credentials; only this module depends on kopf's description of a connection.

Within a cluster Kubernetes rotates the ServiceAccount's token, so its file is read again.
"""

import base64
import hashlib
import os
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import kopf

_TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_TOKEN_SECONDS: Final = 60.0
"""Interval at which the token file is read, as in client-go."""

_ID_LENGTH: Final = 16


def find_connection() -> kopf.ConnectionInfo:
    """Return the connection of the service account, else of the current context of the kubeconfig.

    Raises:
        SystemExit: neither exists, or the kubeconfig is invalid.
    """
    settings = kopf.OperatorSettings()
    info = kopf.login_with_service_account(settings=settings)
    try:
        info = info or kopf.login_with_kubeconfig(settings=settings)
    except Exception as error:  # a missing file, or one of any content
        path, reason = os.environ.get("KUBECONFIG") or "~/.kube/config", str(error) or type(error).__name__
        raise SystemExit(
            f"no API server: the kubeconfig {path} cannot be used: {type(error).__name__}: {reason}"
        ) from error
    if info is None:
        msg = "no API server: not in a pod with a service account, and neither KUBECONFIG nor ~/.kube/config is there"
        raise SystemExit(msg)
    return info


def cluster_id(info: kopf.ConnectionInfo) -> str | None:
    """Return a digest of the CA of the cluster, which distinguishes it from others; None if `info` has no CA.

    The UID of a namespace would do so too, but needs permission to read namespaces.
    `ssl_context` has checked that it can be read.
    """
    text = Path(str(info.ca_path)).read_text(encoding="utf-8") if info.ca_path else _decode(info.ca_data)
    return hashlib.sha256(text.strip().encode()).hexdigest()[:_ID_LENGTH] if text else None


def ssl_context(info: kopf.ConnectionInfo) -> ssl.SSLContext:
    """Return the TLS settings for `info`: the cluster's CA, and the client certificate if there is one.

    Raises:
        SystemExit: a certificate or key is missing or malformed.
    """
    try:
        return _ssl_context(info)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        files = ", ".join(str(p) for p in (info.ca_path, info.certificate_path, info.private_key_path) if p)
        msg = f"no API server: the certificates for it cannot be read ({files or 'given as text'}): {error}"
        raise SystemExit(msg) from error


def _ssl_context(info: kopf.ConnectionInfo) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=_path_or_none(info.ca_path), cadata=_decode(info.ca_data))
    if info.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if info.certificate_path and info.private_key_path:
        context.load_cert_chain(_path_or_none(info.certificate_path) or "", _path_or_none(info.private_key_path))
    elif info.certificate_data and info.private_key_data:
        _load_chain(context, _decode(info.certificate_data), _decode(info.private_key_data))
    return context


def authorization(info: kopf.ConnectionInfo) -> Callable[[], dict[str, str]]:
    """Return a function that returns the current authentication headers."""
    if not info.token:
        return dict
    # Not in a pod: the token of a kubeconfig does not change.
    if not _TOKEN_FILE.exists():
        return lambda: {"Authorization": f"Bearer {info.token}"}
    cached, read_at = info.token, time.monotonic()

    def headers() -> dict[str, str]:
        nonlocal cached, read_at
        # Kubernetes rotates the token of a ServiceAccount; the former one expires.
        if time.monotonic() - read_at > _TOKEN_SECONDS:
            cached, read_at = _TOKEN_FILE.read_text(encoding="utf-8").strip(), time.monotonic()
        return {"Authorization": f"Bearer {cached}"}

    return headers


def _path_or_none(value: object) -> str | None:
    return str(value) if value else None


def _decode(value: str | bytes | None) -> str | None:
    return base64.b64decode(value).decode() if value else None


def _load_chain(context: ssl.SSLContext, certificate: str | None, key: str | None) -> None:
    """Load a certificate from text: Python's ssl module reads only files."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".pem") as file:
        file.write(f"{certificate}\n{key}\n")
        file.flush()
        context.load_cert_chain(file.name)
