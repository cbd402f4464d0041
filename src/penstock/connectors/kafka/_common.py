"""What Kafka sources and sinks share: brokers, security, client settings and topics."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from penstock.connector import ConnectorOptions
from penstock.connectors.kafka import settings
from penstock.connectors.kafka.security import Sasl, Security, Tls
from penstock.errors import PenstockError, UnreachableError
from penstock.processes import wait_until
from penstock.text import join_words, nearest

if TYPE_CHECKING:
    from typing_extensions import Self

EMBEDDED = "embedded"
QUIET: dict[str, Any] = {"log_level": 0, "socket.connection.setup.timeout.ms": 5000}
_SHOWN = 10


class KafkaOptions(ConnectorOptions):
    """How to connect to the brokers."""

    jars: ClassVar[tuple[str, ...]] = ("kafka",)

    servers: str = Field(min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    tls: Tls | None = Field(default=None, description="An encrypted connection: {ca, cert, key, password}.")
    sasl: Sasl | None = Field(default=None, description="A user and a password: {mechanism, user, password}; with TLS.")

    _check_options = field_validator("options")(settings.validate_options)

    @model_validator(mode="after")
    def _reaches_embedded_in_plaintext(self) -> Self:
        if self.servers == EMBEDDED and (self.tls or self.sasl):
            fix = "penstock dev up kafka --tls --sasl prints the addresses of its secured listeners"
            raise ValueError(f"'servers: embedded' is a plaintext listener, without TLS and users; {fix}")
        return self

    @property
    def security(self) -> Security:
        """TLS and SASL of the connection."""
        return Security(self.tls, self.sasl)

    @property
    def sends_plaintext_password(self) -> bool:
        """Whether `sasl` is used on a plaintext listener, which the file must allow explicitly."""
        return self.sasl is not None and self.sasl.plaintext

    @property
    def client_settings(self) -> dict[str, Any]:
        """Settings of a confluent-kafka client for the same brokers and user."""
        own = settings.client_options(self.options)
        return {"bootstrap.servers": str(self.servers), **own, **self.security.client()}

    def with_absolute_paths(self, folder: Path) -> Self:
        """The same options with the paths of `tls` absolute."""
        return self if self.tls is None else self.model_copy(update={"tls": self.tls.with_absolute_paths(folder)})

    @property
    def services(self) -> tuple[str, ...]:
        """Kafka, if `servers` is `embedded`."""
        return ("kafka",) if self.servers == EMBEDDED else ()

    def with_service_address(self, service: str, address: str) -> Self:
        """The same options with `embedded` replaced by the broker's address."""
        return self.model_copy(update={"servers": address}) if service in self.services else self

    def create_missing(self, error: Exception) -> str | None:
        """Create missing topics: the embedded broker is for experiments."""
        if not isinstance(error, MissingTopicError):
            return None
        create_topics(error.servers, error.topics)
        return f"created topic {', '.join(error.topics)} on the embedded broker"


class MissingTopicError(PenstockError):
    """The broker has no such topic."""

    def __init__(self, servers: str, topics: tuple[str, ...], others: list[str]) -> None:
        self.servers, self.topics = servers, topics
        names = join_words((repr(topic) for topic in topics), "and")
        near = nearest(topics[0], others)
        there = join_words(others[:_SHOWN], "and") if others else "no topic yet"
        fix = f"did you mean {near!r}?" if near else f"create it first; there is {there}"
        super().__init__(f"Kafka at {servers} has no topic {names}; {fix}")


def create_topics(
    servers: str, topics: tuple[str, ...], partitions: int = 2, settings: Mapping[str, Any] | None = None
) -> None:
    """Create topics that do not exist; `settings` are those of a secured connection."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({**QUIET, **(settings or {}), "bootstrap.servers": servers})
    futures = admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    for topic, future in futures.items():
        try:
            future.result(timeout=30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise UnreachableError(f"Kafka at {servers} did not create topic {topic!r}: {error}") from error
    # The controller has created them; other brokers see them a moment later.
    if not wait_until(lambda: set(topics) <= set(admin.list_topics(timeout=30).topics), 30):
        raise UnreachableError(f"Kafka at {servers} does not show the topics that it has just created")
