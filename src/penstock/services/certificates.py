"""TLS certificates for the local broker, signed by a private CA."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_DAYS = 365
_RENEW_DAYS = 30
LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Authority:
    """A CA with its files in `folder`: ca.pem to trust, and NAME.pem with NAME.key for each certificate."""

    folder: Path
    name: str = "penstock dev CA"

    @property
    def ca(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / "ca.pem"

    def certificate(self, name: str) -> Path:
        """The file of a certificate."""
        return self.folder / f"{name}.pem"

    def key(self, name: str) -> Path:
        """The file of a certificate's private key."""
        return self.folder / f"{name}.key"

    def ensure(self, names: Sequence[str]) -> None:
        """Create the CA and a certificate for each name, unless they exist and are valid for another 30 days."""
        if all(map(_is_valid, [self.ca, *map(self.certificate, names)])):
            return
        self.create()
        for name in names:
            self.issue(name, LOOPBACK)

    def create(self) -> None:
        """Create a new CA; certificates of the old one become invalid."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _start_builder(
            _name(self.name), _name(self.name), key.public_key(), _now(), _now() + timedelta(days=_DAYS)
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_key_usage(signs=True), critical=True)
        self._write("ca", builder, key, key)

    def issue(self, name: str, hosts: Sequence[str], days: int = _DAYS) -> None:
        """Issue a certificate for some hosts; with negative days, one that has expired."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509.oid import ExtendedKeyUsageOID

        signer = load_pem_private_key(self.key("ca").read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        ends = _now() + timedelta(days=days)
        starts = min(_now(), ends) - timedelta(days=1)
        builder = _start_builder(_name(f"penstock-{name}"), _name(self.name), key.public_key(), starts, ends)
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs=False), critical=True)
        both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(both, critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        self._write(name, builder, key, signer)

    def _write(
        self,
        name: str,
        builder: x509.CertificateBuilder,
        key: EllipticCurvePrivateKey,
        signer: EllipticCurvePrivateKey,
    ) -> None:
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_private(self.key(name), private)
        self.certificate(name).write_bytes(builder.sign(signer, SHA256()).public_bytes(Encoding.PEM))


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can ever read."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    new.replace(path)


def _is_valid(path: Path) -> bool:
    from cryptography import x509

    try:
        ends = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc
    except (OSError, ValueError):
        return False
    return ends > _now() + timedelta(days=_RENEW_DAYS)


def _start_builder(
    subject: x509.Name, issuer: x509.Name, public: object, starts: datetime, ends: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)  # type: ignore[arg-type]
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(starts).not_valid_after(ends)
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)  # type: ignore[arg-type]
    return builder.add_extension(identifier, critical=False)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)
