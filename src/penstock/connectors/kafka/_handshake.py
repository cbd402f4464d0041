"""A raw connection to a broker: its protocol, its certificate and the logins that it offers.

Kafka's clients do not tell a wrong protocol or a wrong certificate from a broker that is down: they wait.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock.connectors._certificates import Material, first_certificate
from penstock.connectors.kafka.security import Security
from penstock.errors import PenstockError, RefusedError, UnreachableError
from penstock.text import join_words

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_SASL_HANDSHAKE = 17
_NONE, _UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 0, 33, 34
_MAX_BYTES = 65_536
# OpenSSL's codes for an invalid certificate.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAME = (62, 64)
_DAY_SECONDS = 86_400

ListenerProtocol = Literal["plaintext", "tls", "unknown"]


@dataclass(frozen=True)
class Server:
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Server:
        """Parse `host:port` or `[::1]:port`; ValueError for anything else."""
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self, seconds: float) -> socket.socket:
        """Open a TCP connection; OSError if that fails."""
        return socket.create_connection((self.host, self.port), timeout=seconds)


@dataclass(frozen=True)
class Handshake:
    """A listener's answer to a SASL handshake."""

    requires_login: bool
    mechanisms: tuple[str, ...] = ()


def create_context(material: Material) -> ssl.SSLContext:
    """The TLS context that Kafka's own clients would use."""
    context = ssl.create_default_context(cadata=material.ca or None)
    context.hostname_checks_common_name = True
    if material.chain:
        _load_identity(context, material)
    return context


def _load_identity(context: ssl.SSLContext, material: Material) -> None:
    # Python loads a key only from a file: a private one, deleted at once.
    handle, name = tempfile.mkstemp(prefix="penstock-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(material.key + material.chain)
        context.load_cert_chain(name)
    finally:
        Path(name).unlink()


def connect_tls(server: Server, context: ssl.SSLContext, seconds: float) -> ssl.SSLSocket:
    """Open a TLS connection; ssl.SSLError or OSError if that fails."""
    plain = server.connect(seconds)
    try:
        return context.wrap_socket(plain, server_hostname=server.host)
    except BaseException:
        plain.close()
        raise


def fetch_certificate(server: Server, seconds: float) -> Certificate | None:
    """The broker's certificate, not verified; None if there is none."""
    from cryptography import x509

    unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    try:
        with connect_tls(server, unchecked, seconds) as connection:
            certificate = connection.getpeercert(binary_form=True)
    except (OSError, ValueError):
        return None
    return x509.load_der_x509_certificate(certificate) if certificate else None


def detect_protocol(server: Server, seconds: float) -> ListenerProtocol:
    """Whether a listener speaks TLS or plaintext, by trying both."""
    if fetch_certificate(server, seconds) is not None:
        return "tls"
    try:
        with server.connect(seconds) as plain:
            request_handshake(plain, "PLAIN")
    except (OSError, ValueError):
        return "unknown"
    return "plaintext"


def request_handshake(connection: socket.socket, mechanism: str) -> Handshake:
    """Send a SASL handshake request; ValueError if the answer is not Kafka's."""
    client, wanted = b"penstock", mechanism.encode()
    request = struct.pack(">hhih", _SASL_HANDSHAKE, 1, 1, len(client)) + client
    request += struct.pack(">h", len(wanted)) + wanted
    connection.sendall(struct.pack(">i", len(request)) + request)
    size, correlation = struct.unpack(">ii", _read_exactly(connection, 8))
    if correlation != 1 or not 4 < size < _MAX_BYTES:
        raise ValueError("what answers is not a Kafka broker")
    body = _read_exactly(connection, size - 4)
    try:
        (error,), mechanisms = struct.unpack_from(">h", body), _parse_texts(body[2:])
    except (struct.error, UnicodeDecodeError) as problem:
        raise ValueError("what answers is not a Kafka broker") from problem
    if error not in (_NONE, _UNSUPPORTED_MECHANISM, _ILLEGAL_STATE):
        raise ValueError(f"the broker answers the login with Kafka's error {error}")
    return Handshake(error != _ILLEGAL_STATE, mechanisms)


def _parse_texts(body: bytes) -> tuple[str, ...]:
    (count,), at, found = struct.unpack_from(">i", body), 4, []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", body, at)
        found.append(body[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return tuple(found)


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        found += part
    return found


@dataclass(frozen=True)
class CertificateSummary:
    """A verified certificate: a line for the user, and the days until it expires."""

    text: str
    days: int


def summarize_certificate(certificate: Mapping[str, Any]) -> CertificateSummary:
    """Names and expiry of a verified certificate."""
    ends = ssl.cert_time_to_seconds(certificate["notAfter"])
    days = int((ends - time.time()) // _DAY_SECONDS)
    names = join_words((name for _, name in certificate.get("subjectAltName", ())), "and")
    until = time.strftime("%Y-%m-%d", time.gmtime(ends))
    return CertificateSummary(f"valid for {names} until {until} ({days} days)", days)


def untrusted_error(
    server: Server, security: Security, error: ssl.SSLCertVerificationError, seconds: float
) -> RefusedError:
    """Why the broker's certificate was not accepted, and what to do."""
    found = fetch_certificate(server, seconds)
    if found is None:
        return RefusedError(f"the certificate of {server} is not trusted: {error.verify_message}; check 'tls.ca'")
    if error.verify_code == _EXPIRED:
        says = f"the certificate of {server} expired on {found.not_valid_after_utc:%Y-%m-%d}"
        return RefusedError(f"{says}; the broker's owner must renew it")
    if error.verify_code == _NOT_YET_VALID:
        says = f"the certificate of {server} is valid only from {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        return RefusedError(f"{says}; check the clock of this machine")
    if error.verify_code in _WRONG_NAME:
        says = f"the certificate of {server} is for {join_words(_names(found), 'and')}, not for {server.host!r}"
        return RefusedError(f"{says}; use a name of the certificate in 'servers', or have the certificate changed")
    trusted = "'tls.ca'" if security.tls and security.tls.ca else "this system (there is no 'tls.ca')"
    says = f"the certificate of {server} is issued by {found.issuer.rfc4514_string()!r}, which {trusted} does not trust"
    return RefusedError(f"{says}; give the CA certificate of this broker as 'tls.ca'")


def closed_error(server: Server, security: Security, error: OSError) -> PenstockError:
    """Why the broker closed a TLS connection: most often our certificate is wrong or missing."""
    reason = str(getattr(error, "reason", "") or "").lower()
    who = client_subject(security)
    if isinstance(error, TimeoutError):
        return UnreachableError(f"{server} does not complete the TLS handshake; try again, or correct 'servers'")
    if who and ("certificate" in reason or "unknown_ca" in reason):
        return RefusedError(
            f"{server} does not accept our certificate, {who}; give one that the broker's CA has signed"
        )
    if not who and ("certificate" in reason or isinstance(error, ConnectionError | ssl.SSLEOFError)):
        return RefusedError(f"{server} requires a client certificate; give 'tls.cert' and 'tls.key'")
    why = reason.replace("_", " ") or (error.strerror or str(error)).lower()
    return UnreachableError(f"the TLS connection to {server} broke: {why}; check the broker's log")


def client_subject(security: Security) -> str:
    """The subject of our certificate; '' if we have none."""
    chain = security.material.chain
    return repr(first_certificate(chain).subject.rfc4514_string()) if chain else ""


def _names(certificate: Certificate) -> list[str]:
    from cryptography import x509

    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return [repr(certificate.subject.rfc4514_string())]
    return [repr(str(name.value)) for name in extension.value]
