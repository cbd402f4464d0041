"""The secured listeners of the local broker: TLS, mutual TLS, and SASL over TLS.

All listen on loopback; certificates and passwords are generated once and stored in the broker's private folder.
"""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.services.certificates import Authority, write_private
from penstock.text import quote_jaas

USER = "penstock"
CONNECTION_STRING = "$ConnectionString"
_MODULES = "org.apache.kafka.common.security"
_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(frozen=True)
class Listener:
    """One port of the broker: its security and its certificate."""

    name: str
    sasl: tuple[str, ...] = ()
    client_certificate: bool = False
    certificate: str = "broker"
    encrypted: bool = True
    users: Mapping[str, str] = field(default_factory=dict)
    """Additional users for PLAIN, with their passwords."""

    @property
    def id(self) -> str:
        """The listener name in Kafka's settings."""
        return self.name.replace("-", "_").upper()

    @property
    def protocol(self) -> str:
        """The security protocol in Kafka's settings."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.encrypted else "PLAINTEXT")


TLS = (Listener("tls"), Listener("mutual-tls", client_certificate=True))
SASL = (Listener("sasl-plain", sasl=("PLAIN",)), Listener("sasl-scram", sasl=_MECHANISMS))
LISTENERS = (*TLS, *SASL)


@dataclass(frozen=True)
class SecuredListeners:
    """The listeners besides the plaintext one, and the credentials for clients."""

    folder: Path
    listeners: tuple[Listener, ...] = LISTENERS

    @property
    def authority(self) -> Authority:
        """The CA, and the certificates of the broker and of a client."""
        return Authority(self.folder / "tls")

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each listener by name; empty if the broker was started without them."""
        try:
            found: dict[str, str] = json.loads(self._file.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found

    @property
    def password(self) -> str:
        """The password of the user `penstock`, with PLAIN and with SCRAM."""
        return self._secrets["password"]

    @property
    def connection(self) -> str:
        """A connection string as for Event Hubs: it is the password of the user $ConnectionString."""
        place = self.addresses["sasl-plain"]
        key = self._secrets["key"]
        return f"Endpoint=sb://{place}/;SharedAccessKeyName=penstock;SharedAccessKey={key}"

    @property
    def variables(self) -> dict[str, str]:
        """Everything a client needs, as environment variables."""
        addresses = {f"KAFKA_{name.replace('-', '_').upper()}": place for name, place in self.addresses.items()}
        files = {"KAFKA_CA": self.authority.ca, "KAFKA_CERT": self.authority.certificate("client")}
        files["KAFKA_KEY"] = self.authority.key("client")
        paths = {name: str(path.absolute()) for name, path in files.items()}
        users = {"KAFKA_USER": USER, "KAFKA_PASSWORD": self.password}
        hubs = {"EVENTHUBS_CONNECTION": self.connection} if "sasl-plain" in self.addresses else {}
        return {**addresses, **paths, **users, **hubs}

    @property
    def shell_file(self) -> Path:
        """The variables as a shell script, to be read with `. FILE`."""
        return self.folder / "client.env"

    def prepare(self, addresses: Mapping[str, str]) -> None:
        """Create certificates and passwords, and store the addresses."""
        self.authority.ensure(["broker", "client"])
        if not self._secrets:
            generated = {"password": secrets.token_urlsafe(24), "key": secrets.token_urlsafe(32)}
            write_private(self.folder / "secrets.json", json.dumps(generated).encode())
        self._file.write_text(json.dumps(dict(addresses)), encoding="utf-8")
        for name in {listener.certificate for listener in self.listeners}:
            # The broker needs the key and the certificate in one file.
            both = self.authority.key(name).read_bytes() + self.authority.certificate(name).read_bytes()
            write_private(self.folder / "tls" / f"{name}-both.pem", both)
        lines = (f"export {name}={shlex.quote(value)}\n" for name, value in self.variables.items())
        write_private(self.shell_file, "".join(lines).encode())

    def clear(self) -> None:
        """Delete the stored addresses, for a broker without secured listeners."""
        self._file.unlink(missing_ok=True)

    def settings(self, addresses: Mapping[str, str]) -> list[str]:
        """The lines for server.properties; unauthenticated clients may do everything."""
        lines = [
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users=User:ANONYMOUS",
            "allow.everyone.if.no.acl.found=true",
        ]
        for listener in self.listeners:
            lines += self._listener_settings(listener, addresses)
        return lines

    def _listener_settings(self, listener: Listener, addresses: Mapping[str, str]) -> list[str]:
        settings: dict[str, str] = {}
        if listener.encrypted:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"tls/{listener.certificate}-both.pem"}
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": "tls/ca.pem"}
        if listener.client_certificate:
            settings["ssl.client.auth"] = "required"
        if listener.sasl:
            settings["sasl.enabled.mechanisms"] = ",".join(listener.sasl)
        for mechanism in listener.sasl:
            settings[f"{mechanism.lower()}.sasl.jaas.config"] = self._jaas(listener, mechanism, addresses)
        return [
            f"listener.name.{listener.id.lower()}.{key}={escape_property(value)}" for key, value in settings.items()
        ]

    def _jaas(self, listener: Listener, mechanism: str, addresses: Mapping[str, str]) -> str:
        if mechanism != "PLAIN":
            return f"{_MODULES}.scram.ScramLoginModule required;"
        event_hubs = {CONNECTION_STRING: self.connection} if "sasl-plain" in addresses else {}
        users = {USER: self.password, **event_hubs, **listener.users}
        known = " ".join(f"user_{name}={quote_jaas(password)}" for name, password in users.items())
        return f"{_MODULES}.plain.PlainLoginModule required {known};"

    def add_users(self, address: str) -> None:
        """Create the SCRAM users in the running broker: it stores them in its metadata log, not in its settings."""
        import confluent_kafka.admin as kafka  # its types export less than it does

        kinds = (kafka.ScramMechanism.SCRAM_SHA_256, kafka.ScramMechanism.SCRAM_SHA_512)  # type: ignore[attr-defined]
        infos = [kafka.ScramCredentialInfo(kind, 4096) for kind in kinds]  # type: ignore[attr-defined]
        upsert = kafka.UserScramCredentialUpsertion  # type: ignore[attr-defined]
        users = [upsert(USER, info, self.password.encode()) for info in infos]
        admin = kafka.AdminClient({"bootstrap.servers": address, "log_level": 0})
        for user in users:
            for future in admin.alter_user_scram_credentials([user]).values():
                future.result(timeout=30)

    @property
    def _file(self) -> Path:
        return self.folder / "listeners.json"

    @property
    def _secrets(self) -> dict[str, str]:
        try:
            found: dict[str, str] = json.loads((self.folder / "secrets.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found


def escape_property(value: str) -> str:
    """Escape a value for a Java properties file, which is Latin-1 with backslash escapes."""
    marks = {"\\": "\\\\", "\n": "\\n", "\r": "\\r"}
    return "".join(marks.get(char, char if char.isascii() else _unicode(char)) for char in value)


def _unicode(char: str) -> str:
    data = char.encode("utf-16-be")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))
