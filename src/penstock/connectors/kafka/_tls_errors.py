"""Why a TLS connection failed, in a sentence that names the certificate's own words."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors._certificates import first
from penstock.connectors.kafka._probe import Server, certificate_of
from penstock.connectors.kafka.security import Security
from penstock.errors import PenstockError, RefusedError, UnreachableError
from penstock.text import join_words

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, Name

_DAY_SECONDS = 86_400
# OpenSSL's numbers for what it found wrong with a certificate.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = (62, 64)


@dataclass(frozen=True)
class Shown:
    """A broker's certificate that we trust."""

    says: str
    days: int


def shown(certificate: Mapping[str, Any]) -> Shown:
    """What a checked certificate says of itself."""
    ends = ssl.cert_time_to_seconds(certificate["notAfter"])
    days = int((ends - time.time()) // _DAY_SECONDS)
    names = join_words((name for _, name in certificate.get("subjectAltName", ())), "and")
    return Shown(f"fits, for {names}; valid until {time.strftime('%Y-%m-%d', time.gmtime(ends))} ({days} days)", days)


def untrusted(server: Server, security: Security, error: ssl.SSLCertVerificationError, seconds: float) -> RefusedError:
    """What is wrong with the broker's certificate, and what to do."""
    found = certificate_of(server, seconds)
    if found is None:
        return RefusedError(f"the certificate of {server} is not trusted: {error.verify_message}; look at 'tls.ca'")
    if error.verify_code == _EXPIRED:
        says = f"the certificate of {server} expired on {found.not_valid_after_utc:%Y-%m-%d}"
        return RefusedError(f"{says}; the broker's owner must renew it")
    if error.verify_code == _NOT_YET_VALID:
        says = f"the certificate of {server} is valid only from {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return RefusedError(f"{says}; look at the clock of this machine")
    if error.verify_code in _WRONG_NAME:
        says = f"the certificate of {server} is for {join_words(_names(found), 'and')}, not for {server.host!r}"
        return RefusedError(f"{says}; use a name of the certificate in 'servers', or have the certificate changed")
    trusted = "'tls.ca'" if security.tls and security.tls.ca else "this system (there is no 'tls.ca')"
    says = f"the certificate of {server} is issued by {_said(found.issuer)!r}, which {trusted} does not trust"
    return RefusedError(f"{says}; give the CA certificate of this broker as 'tls.ca'")


def closed(server: Server, security: Security, error: OSError) -> PenstockError:
    """The broker ended a TLS connection: most often because of our certificate, or because we have none."""
    reason = str(getattr(error, "reason", "") or "").lower()
    who = subject_of(security)
    if isinstance(error, TimeoutError):
        return UnreachableError(f"{server} does not answer to TLS; try again, or correct 'servers'")
    if who and ("certificate" in reason or "unknown_ca" in reason):
        return RefusedError(
            f"{server} does not accept our certificate, {who}; give one that the broker's CA has signed"
        )
    if not who and ("certificate" in reason or isinstance(error, ConnectionError | ssl.SSLEOFError)):
        return RefusedError(f"{server} asks for a certificate of ours; give 'tls.cert' and 'tls.key'")
    why = reason.replace("_", " ") or (error.strerror or str(error)).lower()
    return UnreachableError(f"the TLS connection to {server} broke: {why}; look at the broker's log")


def subject_of(security: Security) -> str:
    """Whom our certificate names; nothing if we have none."""
    chain = security.material.chain
    return repr(first(chain).subject.rfc4514_string()) if chain else ""


def _names(certificate: Certificate) -> list[str]:
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return [repr(_said(certificate.subject))]
    return [repr(str(name.value)) for name in extension.value]


def _said(name: Name) -> str:
    return name.rfc4514_string()
