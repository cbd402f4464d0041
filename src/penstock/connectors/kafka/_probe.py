"""One connection to a broker, by hand: what it speaks, who it says it is, and what it asks of us.

Kafka's clients answer a wrong protocol, a wrong certificate and a broker that is down alike: they wait.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from penstock.connectors._certificates import Material

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_SASL_HANDSHAKE = 17
_NONE, _UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 0, 33, 34
_MOST_BYTES = 65_536

Speaks = Literal["plaintext", "tls", "unknown"]


@dataclass(frozen=True)
class Server:
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def of(cls, text: str) -> Server:
        """`host:port`, `[::1]:port`; ValueError for anything else."""
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"{text!r} is not host:port")
        return cls(host.strip("[]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def connect(self, seconds: float) -> socket.socket:
        """A connection; OSError says why there is none."""
        return socket.create_connection((self.host, self.port), timeout=seconds)


@dataclass(frozen=True)
class Handshake:
    """What a listener says to a user who wants to log in."""

    asks: bool
    mechanisms: tuple[str, ...] = ()


def context(material: Material) -> ssl.SSLContext:
    """How we check a broker and prove who we are: as Kafka's own clients do."""
    made = ssl.create_default_context(cadata=material.ca or None)
    made.hostname_checks_common_name = True
    if material.chain:
        _load_identity(made, material)
    return made


def _load_identity(made: ssl.SSLContext, material: Material) -> None:
    # Python takes a key from a file only: one that nobody else can open, and that is gone at once.
    handle, name = tempfile.mkstemp(prefix="penstock-")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(material.key + material.chain)
        made.load_cert_chain(name)
    finally:
        Path(name).unlink()


def encrypted(server: Server, made: ssl.SSLContext, seconds: float) -> ssl.SSLSocket:
    """A checked TLS connection; ssl.SSLError or OSError says what is wrong."""
    plain = server.connect(seconds)
    try:
        return made.wrap_socket(plain, server_hostname=server.host)
    except BaseException:
        plain.close()
        raise


def certificate_of(server: Server, seconds: float) -> Certificate | None:
    """The certificate that a broker shows, checked by nobody; None if it shows none."""
    from cryptography import x509

    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    try:
        with encrypted(server, anyone, seconds) as found:
            shown = found.getpeercert(binary_form=True)
    except (OSError, ValueError):
        return None
    return x509.load_der_x509_certificate(shown) if shown else None


def speaks(server: Server, seconds: float) -> Speaks:
    """What a listener understands, found out by trying both."""
    if certificate_of(server, seconds) is not None:
        return "tls"
    try:
        with server.connect(seconds) as plain:
            handshake(plain, "PLAIN")
    except (OSError, ValueError):
        return "unknown"
    return "plaintext"


def handshake(connection: socket.socket, mechanism: str) -> Handshake:
    """Ask to log in; a listener without users says so. ValueError if what answers is no Kafka."""
    client, wanted = b"penstock", mechanism.encode()
    request = struct.pack(">hhih", _SASL_HANDSHAKE, 1, 1, len(client)) + client
    request += struct.pack(">h", len(wanted)) + wanted
    connection.sendall(struct.pack(">i", len(request)) + request)
    size, correlation = struct.unpack(">ii", _read(connection, 8))
    if correlation != 1 or not 4 < size < _MOST_BYTES:
        raise ValueError("what answers is no Kafka broker")
    body = _read(connection, size - 4)
    try:
        (error,), mechanisms = struct.unpack_from(">h", body), _texts(body[2:])
    except (struct.error, UnicodeDecodeError) as problem:
        raise ValueError("what answers is no Kafka broker") from problem
    if error not in (_NONE, _UNSUPPORTED_MECHANISM, _ILLEGAL_STATE):
        raise ValueError(f"the broker answers the login with Kafka's error {error}")
    return Handshake(error != _ILLEGAL_STATE, mechanisms)


def _texts(body: bytes) -> tuple[str, ...]:
    (count,), at, found = struct.unpack_from(">i", body), 4, []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", body, at)
        found.append(body[at + 2 : at + 2 + length].decode())
        at += 2 + length
    return tuple(found)


def _read(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        part = connection.recv(count - len(found))
        if not part:
            raise ConnectionResetError("the broker closed the connection")
        found += part
    return found
