"""The connection string of an Event Hub, as Azure's portal shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from penstock.options import Secret
from penstock.redaction import remember
from penstock.text import did_you_mean, join_words

KAFKA_PORT = 9093
_CLOUD = "servicebus.windows.net"
_NEEDED = ("Endpoint", "SharedAccessKeyName", "SharedAccessKey")
_KEYS = (*_NEEDED, "EntityPath")
_ENDPOINT = re.compile(r"sb://(?P<host>[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?)(:(?P<port>\d{1,5}))?/?")
_HUB = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,254}[A-Za-z0-9])?")
_COPY = "copy it whole from the portal: Shared access policies, the policy, 'Connection string–primary key'"


class Policy(NamedTuple):
    """A shared access policy of a namespace."""

    namespace: str
    name: str
    key: str


@dataclass(frozen=True)
class Connection:
    """A namespace's address, the hub if the string names one, and the string itself."""

    host: str
    port: int
    hub: str | None
    text: Secret

    @property
    def servers(self) -> str:
        """The Kafka endpoint of the namespace."""
        return f"{self.host}:{self.port}"


def parse_connection_string(text: str) -> Connection:
    """Parse a connection string; ValueError says what is wrong with it, without its values."""
    parts = _parts(text)
    for key in parts:
        if key not in _KEYS:
            raise ValueError(f"the connection string has {key[:40]!r} in it; {did_you_mean(key, _KEYS)}")
    missing = [key for key in _NEEDED if not parts.get(key)]
    if missing:
        raise ValueError(f"the connection string has no {join_words(map(repr, missing), 'and no')}; {_COPY}")
    endpoint = _ENDPOINT.fullmatch(parts["Endpoint"])
    if endpoint is None:
        raise ValueError(f"the 'Endpoint' of the connection string is not sb://NAMESPACE.{_CLOUD}/; {_COPY}")
    hub = parts.get("EntityPath")
    if hub is not None:
        require_hub(hub)
    remember(parts["SharedAccessKey"])
    return Connection(endpoint["host"], int(endpoint["port"] or KAFKA_PORT), hub, Secret(text.strip()))


def connection_for_policy(policy: Policy) -> Connection:
    """The connection for a namespace (its name or its host) and a policy."""
    for what, value in (("policy", policy.name), ("key", policy.key)):
        if not value or ";" in value:
            raise ValueError(f"'{what}' is empty or has a ';' in it; give the {what} alone")
    host = policy.namespace if "." in policy.namespace else f"{policy.namespace}.{_CLOUD}"
    try:
        return parse_connection_string(
            f"Endpoint=sb://{host}/;SharedAccessKeyName={policy.name};SharedAccessKey={policy.key}"
        )
    except ValueError as error:
        raise ValueError(
            f"'namespace' is {policy.namespace!r}; give its name, or its host like NAME.{_CLOUD}"
        ) from error


def require_hub(hub: str) -> None:
    """ValueError unless it can be the name of an Event Hub."""
    if not _HUB.fullmatch(hub):
        raise ValueError(f"{hub[:60]!r} cannot be the name of an Event Hub; use letters, digits, '.', '-' and '_'")


def _parts(text: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.strip().split(";"))):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"the connection string has a part without '='; {_COPY}")
        if key in parts:
            raise ValueError(f"the connection string has {key[:40]!r} twice; {_COPY}")
        parts[key] = value
    return parts
