"""Azure Event Hubs, over their Kafka endpoint.

What that endpoint cannot carry: the publisher of an event, the partition key that an AMQP client set (a key that a
Kafka client set arrives), AMQP's byte offsets (an offset here is the sequence number) and its system properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from penstock.connector import (
    ALL_TRIGGERS,
    EPOCH,
    ConnectorOptions,
    Fact,
    Gap,
    PrintStatus,
    SinkOptions,
    SourceOptions,
    Writer,
)
from penstock.connectors.eventhubs._start import parse, to_events
from penstock.connectors.kafka import KafkaSink, KafkaSource, MissingTopicError
from penstock.connectors.kafka import settings as kafka_settings
from penstock.connectors.kafka.security import Sasl, Tls
from penstock.errors import BuildError, PenstockError
from penstock.options import Secret, SecretText
from penstock.redaction import remember
from penstock.spark import name_types
from penstock.text import did_you_mean, join_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType
    from typing_extensions import Self

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


_COLUMNS = (
    "body binary, partition string, offset string, sequenceNumber bigint, enqueuedTime timestamp, publisher string, "
    "partitionKey string, properties map<string, string>"
)
_USER = "$ConnectionString"
# Event Hubs closes idle connections after four minutes, and answers slowly when it throttles.
_CLIENT = {
    "kafka.request.timeout.ms": "60000",
    "kafka.metadata.max.age.ms": "180000",
    "kafka.connections.max.idle.ms": "180000",
}
# It accepts no lz4, and no request over a megabyte.
_PRODUCER = {**_CLIENT, "kafka.compression.type": "none", "kafka.max.request.size": "1000000"}
_ROUND_ROBIN = {"kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"}


class EventHubOptions(ConnectorOptions):
    """The hub, and its connection string."""

    jars: ClassVar[tuple[str, ...]] = ("kafka",)

    connection: SecretText | None = Field(
        default=None, description="The connection string: Endpoint=sb://...;SharedAccessKeyName=...;SharedAccessKey=..."
    )
    namespace: str | None = Field(default=None, description="Instead of 'connection': the namespace, or its host.")
    policy: str | None = Field(
        default=None, description="Instead of 'connection': a shared access policy of the namespace."
    )
    key: SecretText | None = Field(default=None, description="Instead of 'connection': the policy's key.")
    hub: str | None = Field(default=None, description="The Event Hub, unless the connection string names it.")
    tls: Tls | None = Field(default=None, description="Certificates to trust instead of the system's: {ca}.")

    _check_options = field_validator("options")(kafka_settings.validate_options)

    @model_validator(mode="after")
    def _opens_one_hub(self) -> Self:
        parts = [name for name in ("namespace", "policy", "key") if getattr(self, name)]
        if self.connection and parts:
            raise ValueError(f"'connection' already has it; take '{parts[0]}' out, or 'connection'")
        if not self.connection and len(parts) < 3:
            raise ValueError("give 'connection', the connection string; or 'namespace', 'hub', 'policy' and 'key'")
        named = self._endpoint.hub
        if self.hub is None and named is None:
            raise ValueError("the connection string is a namespace's and names no hub; add 'hub'")
        if self.hub and named and named != self.hub:
            raise ValueError(f"'hub' is {self.hub!r}, and the connection string is for {named!r}; keep one of them")
        require_hub(self._hub)
        return self

    @property
    def client_settings(self) -> dict[str, Any]:
        """Settings of a confluent-kafka client for the same hub."""
        return self._kafka.client_settings

    def with_absolute_paths(self, folder: Path) -> Self:
        """The same options with the paths of `tls` absolute."""
        if self.tls is None:
            return self
        return self.model_copy(update={"tls": self.tls.with_absolute_paths(folder)})

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Check that the namespace answers, accepts the connection string, and has the hub."""
        try:
            yield from self._kafka.probe(wait_seconds, print_status)
        except MissingTopicError as error:
            says = str(error).replace("Kafka at ", "the namespace at ").replace(" topic ", " hub ")
            raise PenstockError(says) from error

    @property
    def _kafka(self) -> KafkaSource | KafkaSink:
        raise NotImplementedError

    @property
    def _endpoint(self) -> Connection:
        if self.connection:
            return parse_connection_string(self.connection)
        return connection_for_policy(Policy(self.namespace or "", self.policy or "", self.key or ""))

    @property
    def _hub(self) -> str:
        return self.hub or self._endpoint.hub or ""

    @property
    def _shared(self) -> dict[str, Any]:
        endpoint = self._endpoint
        sasl = Sasl(mechanism="plain", user=_USER, password=Secret(endpoint.text))
        return {"servers": endpoint.servers, "tls": self.tls or Tls(), "sasl": sasl}


class EventHubsSource(EventHubOptions, SourceOptions):
    """Events of an Event Hub; replayable, so a restart continues from the checkpoint."""

    kind: ClassVar[str] = "eventhubs"
    triggers = ALL_TRIGGERS
    value_column: ClassVar[str | None] = "body"

    start: int | str | dict[str | int, Any] = Field(
        default="end",
        description="Where a new query begins: start, end, an enqueued time, an offset, or a startingPosition.",
    )
    events_per_trigger: int | None = Field(default=None, ge=1, description="Maximum events in one batch.")
    on_data_loss: Literal["fail", "skip", "earliest"] = Field(
        default="fail",
        description="When events expired before they were read: stop, or continue at the next or the first.",
    )

    @field_validator("start")
    @classmethod
    def _is_a_start(cls, start: Any) -> Any:
        parse(start)
        return start

    @property
    def _kafka(self) -> KafkaSource:
        options = {**_CLIENT, **self.options}
        return KafkaSource.model_construct(
            **self._shared,
            topics=(self._hub,),
            start=self._offsets or parse(self.start).position,
            records_per_trigger=self.events_per_trigger,
            on_data_loss=self.on_data_loss,
            headers=True,
            options=options,
        )

    @property
    def _offsets(self) -> dict[str, dict[int | str, int]] | None:
        numbers = parse(self.start).partitions
        return None if numbers is None else {self._hub: {number: offset for number, offset in numbers.items()}}  # noqa: C416

    def resolve_remote(self) -> Self:
        """A start by sequence number, as an offset for every partition within what the hub still has."""
        start = parse(self.start)
        if start.sequence is None and start.partitions is None:
            return self
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer({**self.client_settings, "group.id": "penstock", "log_level": 0})
        try:
            numbers = consumer.list_topics(self._hub, timeout=30).topics[self._hub].partitions
            bounds = {
                number: consumer.get_watermark_offsets(TopicPartition(self._hub, number), timeout=30)
                for number in sorted(numbers)
            }
        finally:
            consumer.close()
        return self.model_copy(
            update={"start": {number: start.first(number, *each) for number, each in bounds.items()}}
        )

    def sender(self) -> KafkaSink:
        """The sink that writes to the hub read here, for a feed."""
        return KafkaSink.model_construct(**self._shared, topic=self._hub, options={**_PRODUCER, **self.options})

    @property
    def spark_columns(self) -> str:
        """The columns that `read` returns for every hub."""
        return _COLUMNS

    def columns(self, spark: SparkSession) -> StructType:
        """The columns that `read` returns, without reading the files of `tls`."""
        return self.model_copy(update={"tls": None, "start": "end"}).read(spark).schema

    def read(self, spark: SparkSession) -> DataFrame:
        """body, partition, offset, sequenceNumber, enqueuedTime, publisher (null), partitionKey, properties."""
        return to_events(self._kafka.read(spark))

    @property
    def on_reset(self) -> str:
        """By `start`."""
        number = parse(self.start).sequence
        return self._kafka.on_reset if number is None else f"is read from event {number} of each partition on"

    def explain(self, failure: str) -> str | None:
        """Events that expired before they were read; a namespace that refuses us."""
        return self._kafka.explain(failure)

    @property
    def spark_description(self) -> tuple[str, ...]:
        """The hub, which Kafka calls a topic."""
        return (self._hub,)

    @property
    def skips_lost_data(self) -> bool:
        """Whether `on_data_loss` allows continuing."""
        return self.on_data_loss != "fail"

    def identity(self) -> dict[str, str]:
        """Nothing: a hub has no id that changes when it is recreated."""
        return {}

    def record_facts(self, name: str, number: int) -> Any:
        """An event's partition, offset, sequence number and time."""
        return {"partition": "0", "offset": str(number), "sequenceNumber": number, "enqueuedTime": EPOCH}.get(name)

    def reads_positions(self, positions: Any) -> bool:
        """Whether these are sequence numbers of this hub."""
        return self._kafka.reads_positions(positions)

    def resume(self, positions: Any, identity: Mapping[str, str]) -> tuple[Any, list[Gap]]:
        """Where to continue, by `on_data_loss`."""
        return self._kafka.resume(positions, identity)

    def missing(self, start: Any, end: Any, rows: int) -> list[Gap]:
        """Events that expired after a batch was planned and before it was read."""
        return self._kafka.missing(start, end, rows)

    def for_preview(self, start: str, batch_rows: int) -> Self:
        """From now or the beginning, a few events at a time."""
        limit = min(batch_rows, self.events_per_trigger or batch_rows)
        begin = "start" if start == "earliest" else "end"
        return self.model_copy(update={"start": begin, "events_per_trigger": limit, "on_data_loss": "skip"})


class EventHubsSink(EventHubOptions, SinkOptions):
    """Events of an Event Hub; at-least-once: a batch that is replayed after a crash is sent again."""

    kind: ClassVar[str] = "eventhubs"
    triggers = ALL_TRIGGERS
    promise: ClassVar[str] = "at-least-once: a batch that is replayed after a crash is sent again"

    body: str = Field(default="body", min_length=1, description="The column that is sent as it is.")
    value: Literal["body", "json"] = Field(default="body", description="Send the body, or the whole row as JSON.")
    partition_key: str | None = Field(
        default=None,
        description="Events with the same value of this column go to one partition; without it, round-robin.",
    )

    @property
    def _kafka(self) -> KafkaSink:
        spread = {} if self.partition_key else _ROUND_ROBIN
        return KafkaSink.model_construct(
            **self._shared,
            topic=self._hub,
            key=self.partition_key,
            value_column=self.body if self.value == "body" else None,
            options={**_PRODUCER, **spread, **self.options},
        )

    def sender(self) -> KafkaSink:
        """The sink that writes to the same hub, for a feed."""
        return self._kafka

    @property
    def native(self) -> bool:
        """Spark sends events by itself."""
        return True

    @property
    def destination(self) -> tuple[str, ...]:
        """The hub."""
        return ("hub", self._hub, self._endpoint.servers)

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:  # noqa: ARG002
        """The columns to send exist."""
        wanted = [name for name in (self.body if self.value == "body" else None, self.partition_key) if name]
        missing = [name for name in wanted if name not in columns]
        if missing:
            there = join_words(columns, "and")
            fix = f"there is {there}; name one with 'body' or 'partition_key', or set 'value: json' to send whole rows"
            raise BuildError(f"its rows have no column {join_words(map(repr, missing))}; {fix}")

    def write_stream(self, rows: DataFrame) -> DataStreamWriter:
        """A writer of events."""
        return self._kafka.write_stream(rows)

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:
        """Check the columns; the writer sends a replayed batch again."""
        self.check_columns(name_types(schema), mode)
        return self._kafka.open(spark, schema, mode)
