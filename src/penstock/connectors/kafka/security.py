"""TLS and SASL for Kafka: settings of Spark's client and of the Python client from the same options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from penstock.connectors._certificates import Material, is_inline, load_material
from penstock.options import Options, Secret, SecretText, absolute_path
from penstock.text import quote_jaas

if TYPE_CHECKING:
    from typing_extensions import Self

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_PATHS = ("ca", "cert", "key")


class Tls(Options):
    """An encrypted connection; with `cert` also a client certificate."""

    ca: str | None = Field(
        default=None, description="Certificates to trust: a PEM, PKCS12 or JKS file; by default those of the system."
    )
    cert: str | None = Field(
        default=None, description="Our certificate: a PEM file, or a PKCS12 or JKS key store that holds its key too."
    )
    key: str | None = Field(default=None, description="Our private key: a PEM file that only its owner can read.")
    password: SecretText | None = Field(default=None, description="The password of the key or of the key stores.")

    @model_validator(mode="after")
    def _has_a_pair(self) -> Self:
        if self.key and not self.cert:
            raise ValueError("'tls.key' needs 'tls.cert', the certificate that it belongs to")
        if self.password and not (self.ca or self.cert):
            raise ValueError("'tls.password' opens a key or a key store; give 'tls.cert' or 'tls.ca'")
        return self

    def with_absolute_paths(self, folder: Path) -> Tls:
        """The same options with every path absolute."""
        given = {name: value for name in _PATHS if (value := getattr(self, name)) and not is_inline(value)}
        return self.model_copy(update={name: absolute_path(folder, value) for name, value in given.items()})

    @property
    def material(self) -> Material:
        """The content of the files, as PEM text."""
        return load_material(self.ca, self.cert, self.key, self.password)


class Sasl(Options):
    """A user and a password."""

    mechanism: Literal["plain", "scram-sha-256", "scram-sha-512"] = Field(
        description="How the password is proven: plain, scram-sha-256 or scram-sha-512."
    )
    user: str = Field(min_length=1, description="The user's name.")
    password: SecretText = Field(min_length=1, description="The password: ${env:NAME}, ${file:path} or ${secret:name}.")
    plaintext: bool = Field(
        default=False, description="Connect without TLS; for scram only, as plain would show the password."
    )

    @model_validator(mode="after")
    def _hides_the_password(self) -> Self:
        if self.plaintext and self.mechanism == "plain":
            fix = "take 'plaintext' out, or use scram-sha-512"
            raise ValueError(f"'sasl.mechanism: plain' without TLS sends the password unencrypted; {fix}")
        return self

    @property
    def name(self) -> str:
        """The mechanism as Kafka spells it."""
        return self.mechanism.upper()

    @property
    def jaas(self) -> Secret:
        """`sasl.jaas.config` of the Java client, with user and password escaped."""
        module = _PLAIN if self.mechanism == "plain" else _SCRAM
        return Secret(f"{module} required username={quote_jaas(self.user)} password={quote_jaas(self.password)};")


@dataclass(frozen=True)
class Security:
    """TLS and SASL of a connection to the brokers."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS; with SASL it does unless `plaintext` is set."""
        return self.tls is not None or (self.sasl is not None and not self.sasl.plaintext)

    @property
    def protocol(self) -> str:
        """Kafka's `security.protocol`."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.encrypted else "PLAINTEXT")

    @property
    def material(self) -> Material:
        """Our certificates; empty where the system's are used."""
        return self.tls.material if self.tls else Material()

    def spark(self) -> dict[str, str]:
        """Options of Spark's reader and writer: inline PEM, so that executors need no files."""
        if self.protocol == "PLAINTEXT":
            return {}
        options = {"security.protocol": self.protocol}
        material = self.material
        if material.ca:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": material.ca}
        if material.chain:
            options |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": material.chain}
            options["ssl.keystore.key"] = material.key
        if self.sasl:
            options |= {"sasl.mechanism": self.sasl.name, "sasl.jaas.config": str(self.sasl.jaas)}
        return {f"kafka.{name}": value for name, value in options.items()}

    def client(self) -> dict[str, Any]:
        """Settings of the Python client."""
        if self.protocol == "PLAINTEXT":
            return {}
        material = self.material
        settings = {"ssl.ca.pem": material.ca, "ssl.certificate.pem": material.chain, "ssl.key.pem": material.key}
        settings = {"security.protocol": self.protocol, **{name: pem for name, pem in settings.items() if pem}}
        if self.sasl:
            settings |= {
                "sasl.mechanism": self.sasl.name,
                "sasl.username": str(self.sasl.user),
                "sasl.password": str(self.sasl.password),
            }
        return settings
