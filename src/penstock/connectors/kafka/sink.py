"""Rows as records of a Kafka topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from penstock.connector import ALL_TRIGGERS, Batch, Fact, PrintStatus, SinkOptions, Writer
from penstock.connectors._table_schema import require_columns
from penstock.connectors.kafka import settings
from penstock.connectors.kafka._broker_probe import BrokerProbe
from penstock.connectors.kafka._common import KafkaOptions
from penstock.errors import RunError
from penstock.options import Duration, quote, seconds
from penstock.spark import name_types

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType
    from typing_extensions import Self

    from penstock.connectors.kafka._transactions import TransactionSpec

_TRANSACTION_TIMEOUT = "5 minutes"
_WRITERS = 1
#: The columns that Spark's own Kafka sink reads.
_SPARK_COLUMNS = frozenset({"key", "value", "topic", "partition", "headers"})


class KafkaSink(KafkaOptions, SinkOptions):
    """Records of a Kafka topic, at least once, or exactly once for consumers that read committed records."""

    kind: ClassVar[str] = "kafka"
    triggers = ALL_TRIGGERS
    promise: ClassVar[str] = (
        "at-least-once: a batch that is replayed after a crash is sent again; with 'delivery: exactly-once' a batch is "
        "sent in transactions that carry its number, and consumers that read committed records see it once"
    )

    topic: str | None = Field(default=None, min_length=1, description="The topic to write to.")
    topic_column: str | None = Field(default=None, description="The column that holds each row's topic.")
    key: str | None = Field(default=None, description="The column for the record's key.")
    value: Literal["json", "avro"] = Field(default="json", description="How the row becomes the record's value.")
    value_column: str | None = Field(default=None, description="Send this column as it is instead of the whole row.")
    avro_schema: str | None = Field(
        default=None, description="The Avro schema to write with; by default the row's own."
    )
    headers: str | None = Field(default=None, description="The column with headers: array<struct<key, value>>.")
    delivery: Literal["at-least-once", "exactly-once"] = Field(
        default="at-least-once", description="Whether a batch that is replayed after a crash is sent again."
    )
    writers: int | None = Field(
        default=None, ge=1, le=64, description="Exactly-once: how many transactions share a batch; 1 by default."
    )
    transaction_timeout: Duration | None = Field(
        default=None, description="Exactly-once: the longest that sending a batch may take; 5 minutes by default."
    )

    on_expired_group: Literal["fail", "send"] = Field(
        default="fail",
        description="Exactly-once: when Kafka has forgotten the last batch, after days without one: stop, or send on.",
    )

    @model_validator(mode="after")
    def _has_a_topic(self) -> Self:
        if bool(self.topic) == bool(self.topic_column):
            raise ValueError("give one of 'topic' and 'topic_column'")
        if self.avro_schema and self.value != "avro":
            raise ValueError("'avro_schema' needs 'value: avro'")
        if self.delivery == "exactly-once" and not self.topic:
            raise ValueError(
                "'delivery: exactly-once' records its batches in one topic; give 'topic', not 'topic_column'"
            )
        if self.delivery != "exactly-once" and (self.writers or self.transaction_timeout):
            raise ValueError("'writers' and 'transaction_timeout' belong to 'delivery: exactly-once'")
        if self.delivery != "exactly-once" and self.on_expired_group != "fail":
            raise ValueError("'on_expired_group' belongs to 'delivery: exactly-once'; take it out")
        return self

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """Kafka, and Avro for `value: avro`."""
        return ("kafka", "avro") if self.value == "avro" else ("kafka",)

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Check that the brokers accept us and have the topic, and that we may write it."""
        client = settings.client_options(self.options)
        topics = (self.topic,) if self.topic else ()
        yield from BrokerProbe(self.servers, self.security, topics, "write", client).run(wait_seconds, print_status)

    @property
    def client_settings(self) -> dict[str, Any]:
        """Settings of a confluent-kafka producer that writes as Spark does: brokers, security and `options`."""
        own = settings.client_options(self.options, producer=True)
        return {"bootstrap.servers": str(self.servers), **own, **self.security.client()}

    def sender(self) -> KafkaSink:
        """This sink, for a feed; ValueError unless it writes to one topic."""
        if not self.topic:
            raise ValueError("its rows choose their topics, and a feed writes to one")
        return self

    @property
    def destination(self) -> tuple[str, ...] | None:
        """The topic, unless rows name theirs."""
        return ("topic", self.topic, self.servers) if self.topic else None

    @property
    def native(self) -> bool:
        """Spark sends records by itself, but not in transactions."""
        return self.delivery == "at-least-once"

    def columns_warning(self, columns: Sequence[str]) -> tuple[str, str] | None:
        """Rows with the columns of Spark's own Kafka sink would be sent as JSON of those columns."""
        names = [name.lower() for name in columns]
        if self.value_column or "value" not in names or not _SPARK_COLUMNS.issuperset(names):
            return None
        fields = ", ".join(f'"{name}": ...' for name in names)
        key = "key: key, " if "key" in names and not self.key else ""
        sent = "without a key" if key else "as the value"
        return (
            f"sends {{{fields}}} {sent}",
            f"add '{key}value_column: value' to send the columns as Spark's own sink does",
        )

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:  # noqa: ARG002
        """The columns that options name exist."""
        for option in ("key", "topic_column", "value_column", "headers"):
            if name := getattr(self, option):
                # A field of a struct is named with a dot.
                require_columns(columns, option, [name.split(".")[0].strip("`")], exact=False)

    def write_stream(self, rows: DataFrame) -> DataStreamWriter:
        """A writer of key, value, topic and headers."""
        return self.records(rows).writeStream.format("kafka").options(**self.writer_options())

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:  # noqa: ARG002
        """Check the columns; the writer sends a replayed batch again, or with exactly-once only what is missing."""
        self.check_columns(name_types(schema), mode)
        return _Records(self) if self.native else _Transactions(self)

    def writer_options(self) -> dict[str, str]:
        """Options of Spark's Kafka writer."""
        options = {
            "kafka.bootstrap.servers": self.servers,
            **self.security.spark(),
            **settings.PRODUCER,
            **self.spark_options,
        }
        if self.topic:
            options["topic"] = self.topic
        if self.headers:
            options["includeHeaders"] = "true"
        return options

    def records(self, rows: DataFrame) -> DataFrame:
        """The rows as Kafka records."""
        from pyspark.sql import functions as F  # noqa: N812

        columns = [self._value(rows).alias("value")]
        if self.key:
            columns.append(F.col(self.key).cast("string").alias("key"))
        if self.topic_column:
            columns.append(F.col(self.topic_column).alias("topic"))
        if self.headers:
            columns.append(F.col(self.headers).alias("headers"))
        return rows.select(*columns)

    def _value(self, rows: DataFrame) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        if self.value_column:
            return F.col(self.value_column)
        row = F.struct(*(F.col(quote(name)) for name in rows.columns if name not in (self.topic_column, self.headers)))
        if self.value == "json":
            return F.to_json(row)
        from pyspark.sql.avro.functions import to_avro

        return to_avro(row, self.avro_schema or "")


@dataclass(frozen=True)
class _Records(Writer):
    """Sends each batch with Spark's own producer."""

    sink: KafkaSink

    def write(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        """Send the batch; a replayed one is sent again."""
        self.sink.records(rows).write.format("kafka").options(**self.sink.writer_options()).save()


@dataclass
class _Transactions(Writer):
    """Sends each batch in transactions that carry its number."""

    sink: KafkaSink
    _has_expired: bool = False
    """Whether the ledger has a batch, and Kafka no number: the next batch may have been sent before a crash."""

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Send the part of the batch that was not sent before."""
        from penstock.connectors.kafka._transactions import send

        spec = self._spec(batch)
        if self._has_expired and self.sink.on_expired_group == "fail":
            says = f"Kafka does not know whether topic {spec.topic!r} has batch {batch.number}"
            why = f"consumer group {spec.group(0)} has expired, or the topic is a new one"
            fix = "set 'on_expired_group: send' for one run: the batch is sent, again if it was sent before"
            raise RunError(f"{says}: {why}; {fix}", retry=False)
        send(self.sink.records(rows), spec, self.sink.writers or _WRITERS)
        self._has_expired = False

    def last_batch(self, batch: Batch) -> int | None:
        """The number in the consumer groups; None if they have expired."""
        from penstock.connectors.kafka._transactions import find_last_batch

        found = find_last_batch(self._spec(batch), self.sink.writers or _WRITERS)
        self._has_expired = found is None and batch.number >= 0
        return found

    def _spec(self, batch: Batch) -> TransactionSpec:
        from penstock.connectors.kafka._transactions import TransactionSpec

        sink = self.sink
        timeout = seconds(sink.transaction_timeout or _TRANSACTION_TIMEOUT)
        return TransactionSpec(str(sink.topic), sink.client_settings, batch.writer, batch.query, batch.number, timeout)
