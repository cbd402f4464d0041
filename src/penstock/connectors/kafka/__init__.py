"""Kafka topics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from penstock.connectors._table_schema import require_columns
from penstock.connectors.kafka import _offsets as kafka_positions
from penstock.connectors.kafka import settings as kafka_settings
from penstock.connectors.kafka._failures import explained
from penstock.connectors.kafka._preflight import Examination
from penstock.connectors.kafka.security import Sasl, Security, Tls
from penstock.connectors.kafka.topics import MissingTopicError, create_topics
from penstock.options import ALL_TRIGGERS, Batch, Duration, Gap, Names, Seen, SinkOptions, SourceOptions, seconds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType
    from typing_extensions import Self

__all__ = ["EMBEDDED", "KafkaSink", "KafkaSource", "MissingTopicError", "create_topics", "milliseconds"]

EMBEDDED = "embedded"
_TRANSACTION_TIMEOUT = "5 minutes"
_WRITERS = 1
_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
#: The columns that Spark's own Kafka sink gives a meaning to.
_SPARK_COLUMNS = frozenset({"key", "value", "topic", "partition", "headers"})
_HEADERS = "headers array<struct<key: string, value: binary>>"
Offsets = dict[str, dict[int | str, int]]
Position = Literal["earliest", "latest"] | Offsets | str


class _Kafka:
    """What source and sink share: where the brokers are, who we are, and what Kafka's client may be told."""

    jars: ClassVar[tuple[str, ...]] = ("kafka",)
    servers: str
    tls: Tls | None
    sasl: Sasl | None
    options: dict[str, Any]

    @property
    def security(self) -> Security:
        """How the connection is secured."""
        return Security(self.tls, self.sasl)

    @property
    def client_settings(self) -> dict[str, Any]:
        """What a Python client of confluent-kafka needs to reach the same brokers as the same user."""
        own = kafka_settings.for_client(self.options)
        return {"bootstrap.servers": str(self.servers), **own, **self.security.client()}

    def with_absolute_paths(self, folder: Path) -> Self:
        """The same with the files of `tls` made absolute."""
        if self.tls is None:
            return self
        return self.model_copy(update={"tls": self.tls.with_absolute_paths(folder)})  # type: ignore[attr-defined,no-any-return]

    @property
    def services(self) -> tuple[str, ...]:
        """`embedded` is the broker of this machine."""
        return ("kafka",) if self.servers == EMBEDDED else ()

    def at(self, service: str, address: str) -> Self:
        """The same with `embedded` replaced by the broker's address."""
        if service not in self.services:
            return self
        return self.model_copy(update={"servers": address})  # type: ignore[attr-defined,no-any-return]


class KafkaSource(_Kafka, SourceOptions):
    """Records of Kafka topics; replayable, so a restart reads on from the checkpoint."""

    kind: ClassVar[str] = "kafka"
    triggers = ALL_TRIGGERS
    value_column: ClassVar[str | None] = "value"
    has_keys: ClassVar[bool] = True

    servers: str = Field(min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    tls: Tls | None = Field(default=None, description="An encrypted connection: {ca, cert, key, password}.")
    sasl: Sasl | None = Field(default=None, description="A user and a password: {mechanism, user, password}; with TLS.")
    topics: Names = Field(default=(), description="Topics to read.")
    pattern: str | None = Field(default=None, description="Topics to read, as a Java regular expression.")
    partitions: dict[str, tuple[int, ...]] | None = Field(
        default=None, description="Exact partitions to read: {topic: [0, 1]}."
    )
    start: Position = Field(
        default="latest",
        description="Where a new query begins: earliest, latest, a time, or {topic: {partition: offset}}.",
    )
    end: Position | None = Field(
        default=None, description="Records from here on are left out: a time, or {topic: {partition: offset}}."
    )
    records_per_trigger: int | None = Field(default=None, ge=1, description="Most records in one batch.")
    min_partitions: int | None = Field(default=None, ge=1, description="Read in at least this many Spark partitions.")
    headers: bool = Field(default=False, description="Add the records' headers.")
    on_data_loss: Literal["fail", "skip", "earliest"] = Field(
        default="fail",
        description="When records are gone before they were read: stop, or go on at the next or the first there is.",
    )
    commit_to_group: str | None = Field(
        default=None, min_length=1, description="A consumer group that is told after each batch what is processed."
    )

    _check_options = field_validator("options")(kafka_settings.refuse_forbidden)

    @field_validator("start", "end")
    @classmethod
    def _is_a_position(cls, position: Position | None) -> Position | None:
        if isinstance(position, str) and position not in ("earliest", "latest"):
            milliseconds(position)
        return position

    @model_validator(mode="after")
    def _reads_one_thing(self) -> Self:
        _refuse_embedded(self)
        given = [name for name in ("topics", "pattern", "partitions") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"give one of 'topics', 'pattern' and 'partitions'; found {found}")
        if self.end in ("earliest", "latest"):
            fix = "to read what is there and end, set 'trigger: available-now' on the sink"
            raise ValueError(f"'end' is a time or offsets, not {self.end}; {fix}")
        return self

    def probe(self, wait_seconds: float, say: Callable[[str], None]) -> Iterator[Seen]:
        """Whether the brokers answer, let us in, and have topics that we may read."""
        own = kafka_settings.for_client(self.options)
        wanted = self.topics or tuple(self.partitions or ())
        yield from Examination(self.servers, self.security, wanted, "read", own).facts(wait_seconds, say)

    def sender(self) -> KafkaSink:
        """What writes into the topic that this reads, for a feed; ValueError unless it reads one."""
        if len(self.topics) != 1:
            raise ValueError(f"it reads {len(self.topics)} topics by name, and a feed writes into one")
        return KafkaSink.model_construct(
            servers=self.servers, tls=self.tls, sasl=self.sasl, options=self.options, topic=self.topics[0]
        )

    def offset_committer(self) -> Callable[[Any], None] | None:
        """Commits the end of each batch to `commit_to_group`, for the lag that other tools of Kafka show."""
        if not self.commit_to_group:
            return None
        from penstock.connectors.kafka._offsets import committing

        return committing(self.client_settings, self.commit_to_group)

    def for_preview(self, start: str, batch_rows: int) -> Self:
        """From now or the beginning, in small batches; records that are gone are no reason to stop looking."""
        most = min(batch_rows, self.records_per_trigger or batch_rows)
        return self.model_copy(
            update={"start": start, "records_per_trigger": most, "on_data_loss": "skip", "commit_to_group": None}
        )

    @property
    def declared_columns(self) -> str:
        """The columns that Spark's connector has for every topic."""
        return f"{_COLUMNS}, {_HEADERS}" if self.headers else _COLUMNS

    def columns(self, spark: SparkSession) -> StructType:
        """The columns that `read` gives, without the files of `tls`."""
        return self.model_copy(update={"tls": None, "sasl": None}).read(spark).schema

    def read(self, spark: SparkSession) -> DataFrame:
        """key, value, topic, partition, offset, timestamp, timestampType, and headers when asked for."""
        options = {
            "kafka.bootstrap.servers": self.servers,
            **self.security.spark(),
            **kafka_settings.CONSUMER,
            **self._subscription(),
            **self._start(),
            "failOnDataLoss": str(self.on_data_loss == "fail").lower(),
            "includeHeaders": str(self.headers).lower(),
            "maxOffsetsPerTrigger": self.records_per_trigger,
            "minPartitions": self.min_partitions,
            **self.spark_options,
        }
        given = {key: str(value) for key, value in options.items() if value is not None}
        rows = spark.readStream.format("kafka").options(**given).load()
        return rows if self.end is None else self._before_end(rows)

    def explain(self, failure: str) -> str | None:
        """Records that are gone from the broker before they were read; a broker that no longer lets us in."""
        if "KAFKA_DATA_LOSS" not in failure and "data may have been lost" not in failure:
            return explained(failure, self.servers, self.topics or tuple(self.partitions or ()))
        why = "they were deleted or have expired, or the topic was made anew"
        fix = "'on_data_loss: skip' goes on without them; another 'storage' or pipeline name begins anew"
        return f"Kafka at {self.servers} no longer has records that the checkpoint expects: {why}; {fix}"

    @property
    def spark_description(self) -> tuple[str, ...]:
        """The topics, as far as they are known before it runs."""
        return self.topics or tuple(self.partitions or ())

    def identity(self) -> dict[str, str]:
        """The id of each topic; a pattern's topics are not known before it runs."""
        return kafka_positions.topic_ids(self.client_settings, self.topics or tuple(self.partitions or ()))

    def reads_positions(self, positions: Any) -> bool:
        """Whether these are offsets of topics that are read here."""
        if not isinstance(positions, dict) or not all(isinstance(each, dict) for each in positions.values()):
            return False
        return bool(self.pattern) or set(positions) <= {*self.topics, *(self.partitions or ())}

    def resume(self, positions: Any, identity: Mapping[str, str]) -> tuple[Any, list[Gap]]:
        """Where to go on, by `on_data_loss`."""
        return kafka_positions.resumed(self.client_settings, positions, identity, self.on_data_loss)

    def missing(self, start: Any, end: Any, rows: int) -> list[Gap]:
        """Records that expired between the plan of a batch and its reading."""
        return kafka_positions.missing(self.client_settings, start, end, rows) if self.on_data_loss != "fail" else []

    def _subscription(self) -> dict[str, str]:
        if self.topics:
            return {"subscribe": ",".join(self.topics)}
        if self.pattern:
            return {"subscribePattern": self.pattern}
        return {"assign": json.dumps({topic: list(numbers) for topic, numbers in (self.partitions or {}).items()})}

    def _start(self) -> dict[str, str]:
        if isinstance(self.start, dict):
            return {"startingOffsets": _offsets_json(self.start)}
        if self.start in ("earliest", "latest"):
            return {"startingOffsets": self.start}
        # A time after the last record means: begin at the end, as 'latest' does.
        moment = str(milliseconds(self.start))
        return {"startingTimestamp": moment, "startingOffsetsByTimestampStrategy": "latest"}

    def _before_end(self, rows: DataFrame) -> DataFrame:
        # Spark bounds only batch reads; on a stream the records past the end are left out instead.
        from pyspark.sql import functions as F  # noqa: N812

        if isinstance(self.end, str):
            return rows.where(F.col("timestamp") < F.timestamp_millis(F.lit(milliseconds(self.end))))
        kept = F.lit(False)
        for topic, partitions in (self.end or {}).items():
            for partition, offset in partitions.items():
                here = (F.col("topic") == topic) & (F.col("partition") == int(partition))
                kept = kept | (here & (F.col("offset") < offset))
        return rows.where(kept)


class KafkaSink(_Kafka, SinkOptions):
    """Records of a Kafka topic, at least once, or exactly once for consumers that read committed records."""

    kind: ClassVar[str] = "kafka"
    triggers = ALL_TRIGGERS
    promise: ClassVar[str] = (
        "at-least-once: a batch that is replayed after a crash is sent again; with 'delivery: exactly-once' a batch is "
        "sent in transactions that carry its number, and consumers that read committed records see it once"
    )

    servers: str = Field(min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    tls: Tls | None = Field(default=None, description="An encrypted connection: {ca, cert, key, password}.")
    sasl: Sasl | None = Field(default=None, description="A user and a password: {mechanism, user, password}; with TLS.")
    topic: str | None = Field(default=None, min_length=1, description="The topic to write to.")
    topic_column: str | None = Field(default=None, description="The column that holds each row's topic.")
    key: str | None = Field(default=None, description="The column that becomes the record's key.")
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

    _check_options = field_validator("options")(kafka_settings.refuse_forbidden)

    @model_validator(mode="after")
    def _has_a_topic(self) -> Self:
        _refuse_embedded(self)
        if bool(self.topic) == bool(self.topic_column):
            raise ValueError("give one of 'topic' and 'topic_column'")
        if self.avro_schema and self.value != "avro":
            raise ValueError("'avro_schema' needs 'value: avro'")
        if self.delivery == "exactly-once" and not self.topic:
            raise ValueError(
                "'delivery: exactly-once' notes its batches in one topic; give 'topic', not 'topic_column'"
            )
        if self.delivery != "exactly-once" and (self.writers or self.transaction_timeout):
            raise ValueError("'writers' and 'transaction_timeout' belong to 'delivery: exactly-once'")
        return self

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """Avro values need their jar too."""
        return ("kafka", "avro") if self.value == "avro" else ("kafka",)

    def probe(self, wait_seconds: float, say: Callable[[str], None]) -> Iterator[Seen]:
        """Whether the brokers answer, let us in, and have the topic, and whether we may write it."""
        own = kafka_settings.for_client(self.options)
        wanted = (self.topic,) if self.topic else ()
        yield from Examination(self.servers, self.security, wanted, "write", own).facts(wait_seconds, say)

    @property
    def client_settings(self) -> dict[str, Any]:
        """What a Python producer of confluent-kafka needs to write as Spark does: brokers, user, and its settings."""
        own = kafka_settings.for_client(self.options, producer=True)
        return {"bootstrap.servers": str(self.servers), **own, **self.security.client()}

    def sender(self) -> KafkaSink:
        """What writes into the same topic, for a feed; ValueError unless it is one."""
        if not self.topic:
            raise ValueError("its rows choose their topics, and a feed writes into one")
        return self

    @property
    def native(self) -> bool:
        """Spark sends records by itself, but not in transactions."""
        return self.delivery == "at-least-once"

    def columns_warning(self, columns: Sequence[str]) -> tuple[str, str] | None:
        """Rows in the columns of Spark's own Kafka sink, which would be sent as JSON with these names in it."""
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

    def check_columns(self, schema: StructType, mode: str) -> None:  # noqa: ARG002
        """The columns that options name are there."""
        for option in ("key", "topic_column", "value_column", "headers"):
            if name := getattr(self, option):
                # A field of a struct is named with a dot.
                require_columns(schema, option, [name.split(".")[0].strip("`")], exact=False)

    def write(self, rows: DataFrame) -> DataStreamWriter:
        """A writer of key, value, topic and headers."""
        return self.records(rows).writeStream.format("kafka").options(**self._writer_options())

    def write_batch(self, rows: DataFrame, batch: Batch) -> None:
        """Send one batch; a replayed one is sent again, or with exactly-once only what is missing of it."""
        if self.native:
            self.records(rows).write.format("kafka").options(**self._writer_options()).save()
            return
        from penstock.connectors.kafka._transactions import Sending, send

        timeout = seconds(self.transaction_timeout or _TRANSACTION_TIMEOUT)
        whole = Sending(str(self.topic), self.client_settings, batch.writer, batch.query, batch.number, timeout)
        send(self.records(rows), whole, self.writers or _WRITERS)

    def _writer_options(self) -> dict[str, str]:
        options = {
            "kafka.bootstrap.servers": self.servers,
            **self.security.spark(),
            **kafka_settings.PRODUCER,
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
        row = F.struct(*(F.col(f"`{name}`") for name in rows.columns if name not in (self.topic_column, self.headers)))
        if self.value == "json":
            return F.to_json(row)
        from pyspark.sql.avro.functions import to_avro

        return to_avro(row, self.avro_schema or "")


def _refuse_embedded(connector: _Kafka) -> None:
    """A ValueError if the plaintext broker of this machine is to be reached with TLS or a password."""
    if connector.servers == EMBEDDED and (connector.tls or connector.sasl):
        fix = "penstock dev up kafka --tls --sasl prints the addresses of its secured listeners"
        raise ValueError(f"'servers: embedded' is a plaintext listener, without TLS and users; {fix}")


def milliseconds(moment: str) -> int:
    """A time as Kafka counts it; ValueError for a text that is none."""
    try:
        parsed = datetime.fromisoformat(moment.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{moment!r} is not earliest, latest, offsets or a time like '2024-05-01 12:00:00'") from None
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)
    return int(zoned.timestamp() * 1000)


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps({topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()})
