"""Certificates and keys of PEM files, PKCS12 and JKS key stores, as PEM text; keys only from private files."""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import CertificateError
from penstock.java import find_java
from penstock.redaction import remember

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

_MAX_BYTES = 1_000_000
_JKS = b"\xfe\xed\xfe\xed"
_KEYTOOL_SECONDS = 60
_WRONG = "wrong password; correct 'tls.password'"


@dataclass(frozen=True)
class Material:
    """PEM texts: trusted CAs, our certificate chain and its private key."""

    ca: str = ""
    chain: str = ""
    key: str = field(default="", repr=False)


def is_inline(value: str) -> bool:
    """Whether a value is PEM text itself, as vaults return it, and not a path."""
    return "-----BEGIN " in value


def load_material(ca: str | None, cert: str | None, key: str | None, password: str | None) -> Material:
    """Read the files; an error names the file and what is wrong with it."""
    chain, private = _load_identity(cert, key, password) if cert else ("", "")
    return Material(_load_ca(ca, password) if ca else "", chain, private)


def first_certificate(chain: str) -> Certificate:
    """The first certificate of a PEM chain: the leaf."""
    from cryptography import x509

    return x509.load_pem_x509_certificates(chain.encode())[0]


def _load_ca(ca: str, password: str | None) -> str:
    store = _Store.read(ca, "tls.ca", password)
    if not store.certificates:
        raise CertificateError(f"{store.label} holds no certificate; give the broker's CA as PEM, PKCS12 or JKS")
    return _pem(store.certificates)


def _load_identity(cert: str, key: str | None, password: str | None) -> tuple[str, str]:
    store = _Store.read(cert, "tls.cert", password)
    key_store = _Store.read(key, "tls.key", password) if key else store
    if key_store.key is None:
        fix = "give 'tls.key', the private key" if not key else "give the private key, as PEM"
        raise CertificateError(f"{key_store.label} holds no private key; {fix}")
    chain = [each for each in store.certificates if _is_pair(each, key_store.key)]
    if not chain:
        message = f"the key of {key_store.label} does not belong to a certificate of {store.label}"
        raise CertificateError(f"{message}; give the pair that was issued together")
    chain += [each for each in store.certificates if each not in chain]
    _require_valid(chain[0], store.label)
    return _pem(chain), _private_pem(key_store.key)


def _require_valid(certificate: Certificate, label: str) -> None:
    now = datetime.now(timezone.utc)
    if certificate.not_valid_after_utc < now:
        message = f"{label}: our certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d}"
        raise CertificateError(f"{message}; ask for a new one")
    if certificate.not_valid_before_utc > now:
        message = f"{label}: our certificate is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        raise CertificateError(f"{message}; check the clock of this machine")


@dataclass(frozen=True)
class _Store:
    """The content of one file, or of one inline text."""

    label: str
    certificates: tuple[Certificate, ...] = ()
    key: PrivateKeyTypes | None = None

    @classmethod
    def read(cls, value: str, option: str, password: str | None) -> _Store:
        """Read a file, or parse inline text."""
        if is_inline(value):
            return cls._parse(repr(option), value.encode(), password)
        label = f"{option!r} {value!r}"
        try:
            found = Path(value).stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
                raise CertificateError(f"{label} is not a file of certificates; give a PEM, PKCS12 or JKS file")
            data = Path(value).read_bytes()
        except OSError as error:
            message = f"{label} cannot be read: {(error.strerror or str(error)).lower()}"
            raise CertificateError(f"{message}; a relative path starts at the folder of the pipeline file") from error
        if data.startswith(_JKS):
            data = _jks_as_pkcs12(value, found.st_mtime_ns, password or "", label)
        store = cls._parse(label, data, password)
        if store.key is not None and found.st_mode & 0o077 and not _is_encrypted(data, password):
            message = f"{label} holds a private key that others can read (mode {stat.S_IMODE(found.st_mode):03o})"
            raise CertificateError(f"{message}; run chmod 600 on it")
        return store

    @classmethod
    def _parse(cls, label: str, data: bytes, password: str | None) -> _Store:
        try:
            certificates, key = _pem_parts(data, password) if _is_pem(data) else _pkcs12_parts(data, password)
        except (ValueError, TypeError) as error:
            raise CertificateError(f"{label} cannot be read: {_explain(error, password)}") from error
        return cls(label, certificates, key)


def _is_pem(data: bytes) -> bool:
    return b"-----BEGIN " in data


def _is_encrypted(data: bytes, password: str | None) -> bool:
    return b"ENCRYPTED" in data if _is_pem(data) else bool(password)


def _pem_parts(data: bytes, password: str | None) -> tuple[tuple[Certificate, ...], Any]:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    certificates = tuple(x509.load_pem_x509_certificates(data)) if b"-----BEGIN CERTIFICATE" in data else ()
    if b"PRIVATE KEY-----" not in data:
        return certificates, None
    secret = password.encode() if password and _is_encrypted(data, password) else None
    return certificates, load_pem_private_key(data[_key_start(data) :], secret)


def _key_start(data: bytes) -> int:
    return data.rindex(b"-----BEGIN ", 0, data.index(b"PRIVATE KEY-----"))


def _pkcs12_parts(data: bytes, password: str | None) -> tuple[tuple[Certificate, ...], Any]:
    from cryptography.hazmat.primitives.serialization import pkcs12

    bundle = pkcs12.load_pkcs12(data, password.encode() if password else None)
    own = [bundle.cert] if bundle.cert else []
    return tuple(each.certificate for each in [*own, *bundle.additional_certs]), bundle.key


@lru_cache(maxsize=16)
def _jks_as_pkcs12(path: str, _changed: int, password: str, label: str) -> bytes:
    """Convert with Java's keytool; the password is passed in the environment, not on the command line."""
    import tempfile

    if not password:
        raise CertificateError(f"{label} is a JKS key store; give its password as 'tls.password'")
    tool = find_java().resolve().with_name("keytool")
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        made = Path(folder, "store.p12")
        command = [str(tool), "-importkeystore", "-noprompt", "-srckeystore", path, "-srcstoretype", "JKS"]
        command += ["-destkeystore", str(made), "-deststoretype", "PKCS12"]
        command += ["-srcstorepass:env", "STORE_PASSWORD", "-deststorepass:env", "STORE_PASSWORD"]
        environment = {**os.environ, "STORE_PASSWORD": password, "LC_ALL": "C"}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_KEYTOOL_SECONDS, check=False, umask=0o077
        )
        if done.returncode or not made.exists():
            lines = [line for line in done.stdout.splitlines() if "error" in line]
            why = (lines or ["keytool gave no reason"])[-1].removeprefix("keytool error: ")
            fix = _WRONG if "password was incorrect" in why else f"{why}; give a PEM file instead"
            raise CertificateError(f"{label} cannot be opened: {fix}")
        return made.read_bytes()


def _is_pair(certificate: Certificate, key: Any) -> bool:
    return bool(certificate.public_key() == key.public_key())


def _pem(certificates: tuple[Certificate, ...] | list[Certificate]) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _private_pem(key: Any) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    # PKCS8 is the only form that Java's client takes.
    text: str = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    remember(text)
    return text


def _explain(error: Exception, password: str | None) -> str:
    words = str(error).lower()
    if "password" in words or "decrypt" in words or "mac" in words:
        return _WRONG if password else "it is encrypted; give 'tls.password'"
    return "it is not PEM, PKCS12 or JKS; give one of them"
