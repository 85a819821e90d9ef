"""Certificates of the admission webhook: a CA, and a server certificate that it has signed.

The CA is valid for ten years, the server certificate for one. Both are renewed long before they expire. The bundle of a
new CA includes the previous one, so that the API server trusts replicas with either certificate.
"""

import ipaddress
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY: Final = "ca.crt"
AUTHORITY_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"

_AUTHORITY_DAYS: Final = 3650
_AUTHORITY_RENEWAL_DAYS: Final = 730
_CERTIFICATE_DAYS: Final = 365
_CERTIFICATE_RENEWAL_DAYS: Final = 120
_CLOCKS_DIFFER: Final = timedelta(hours=1)

Pems = Mapping[str, bytes]
"""PEM texts, by key of the Secret."""


def renew_certificates(stored: Pems, hosts: Sequence[str], now: datetime) -> Pems | None:
    """Return the new data of the Secret; None if the stored certificates need no renewal.

    Args:
        stored: the data of the Secret; it may be empty or invalid.
        hosts: DNS names and addresses of the webhook for the API server.
        now: the current time.
    """
    try:
        bundle = x509.load_pem_x509_certificates(stored[AUTHORITY])
        key = _load_key(stored[AUTHORITY_KEY])
        sound = _is_valid_for(bundle[0], now, _AUTHORITY_RENEWAL_DAYS) and bundle[0].public_key() == key.public_key()
    except (LookupError, ValueError, TypeError):
        bundle, sound = [], False
    if not sound:
        key = ec.generate_private_key(ec.SECP256R1())
        # The bundle includes the previous CA, so that the API server trusts replicas with either certificate.
        bundle = [_authority_certificate(key, now), *(old for old in bundle[:1] if _is_valid_for(old, now, 0))]
    elif _is_usable(stored, bundle[0], hosts, now):
        return None
    server = ec.generate_private_key(ec.SECP256R1())
    return {
        AUTHORITY: b"".join(_pem(certificate) for certificate in bundle),
        AUTHORITY_KEY: _key_pem(key),
        CERTIFICATE: _pem(_server_certificate(server, bundle[0], key, hosts, now)),
        KEY: _key_pem(server),
    }


def _is_usable(stored: Pems, authority: x509.Certificate, hosts: Sequence[str], now: datetime) -> bool:
    """Return whether this CA has signed the stored server certificate, for these hosts, and it needs no renewal."""
    try:
        certificate = x509.load_pem_x509_certificate(stored[CERTIFICATE])
        certificate.verify_directly_issued_by(authority)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        pair = certificate.public_key() == _load_key(stored[KEY]).public_key()
    except Exception:  # an invalid certificate is renewed, whatever the error
        return False
    return (
        pair
        and set(names) == set(_alternative_names(hosts))
        and _is_valid_for(certificate, now, _CERTIFICATE_RENEWAL_DAYS)
    )


def _authority_certificate(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = _name("tfdist-webhook-ca")
    usage = x509.KeyUsage(**_USAGES | {"key_cert_sign": True, "crl_sign": True})
    return (
        _builder(name, name, key, now, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA256())
    )


def _server_certificate(
    key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
    now: datetime,
) -> x509.Certificate:
    return (
        _builder(_name("tfdist-webhook"), authority.subject, key, now, _CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**_USAGES | {"digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(hosts)), critical=False)
        .sign(authority_key, hashes.SHA256())
    )


_USAGES: Final = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
    )


def _alternative_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    return [_alternative_name(host) for host in hosts]


def _alternative_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _is_valid_for(certificate: x509.Certificate, now: datetime, days: int) -> bool:
    return certificate.not_valid_after_utc > now + timedelta(days=days)


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        msg = "not a key of this controller"
        raise TypeError(msg)
    return key


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, pkcs8, plain)
