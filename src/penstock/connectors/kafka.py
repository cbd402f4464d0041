"""Kafka topics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from penstock.connectors import kafka_positions, kafka_settings
from penstock.errors import PenstockError, UnreachableError
from penstock.options import ALL_TRIGGERS, Batch, Gap, Names, SinkOptions, SourceOptions
from penstock.words import listed, nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from typing_extensions import Self

EMBEDDED = "embedded"
_SHOWN_TOPICS = 10
Offsets = dict[str, dict[int | str, int]]
Position = Literal["earliest", "latest"] | Offsets | str


class _Kafka:
    """What source and sink share: where the brokers are, and what Kafka's client may be told."""

    jars: ClassVar[tuple[str, ...]] = ("kafka",)
    servers: str
    options: dict[str, Any]

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

    _check_options = field_validator("options")(kafka_settings.refuse_forbidden)

    @field_validator("start", "end")
    @classmethod
    def _is_a_position(cls, position: Position | None) -> Position | None:
        if isinstance(position, str) and position not in ("earliest", "latest"):
            _milliseconds(position)
        return position

    @model_validator(mode="after")
    def _reads_one_thing(self) -> Self:
        given = [name for name in ("topics", "pattern", "partitions") if getattr(self, name)]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"give one of 'topics', 'pattern' and 'partitions'; found {found}")
        if self.end in ("earliest", "latest"):
            fix = "to read what is there and end, set 'trigger: available-now' on the sink"
            raise ValueError(f"'end' is a time or offsets, not {self.end}; {fix}")
        return self

    def preflight(self, wait_seconds: float, say: Callable[[str], None]) -> None:
        """An error in our words if the brokers do not answer or a topic is missing."""
        wanted = self.topics or tuple(self.partitions or ())
        require_topics(self.servers, wanted, wait_seconds, say)

    def read(self, spark: SparkSession) -> DataFrame:
        """key, value, topic, partition, offset, timestamp, timestampType, and headers when asked for."""
        options = {
            "kafka.bootstrap.servers": self.servers,
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
        """Records that are gone from the broker before they were read."""
        if "KAFKA_DATA_LOSS" not in failure and "data may have been lost" not in failure:
            return None
        why = "they were deleted or have expired, or the topic was made anew"
        fix = "'on_data_loss: skip' goes on without them; another 'storage' or pipeline name begins anew"
        return f"Kafka at {self.servers} no longer has records that the checkpoint expects: {why}; {fix}"

    def identity(self) -> dict[str, str]:
        """The id of each topic; a pattern's topics are not known before it runs."""
        return kafka_positions.topic_ids(self.servers, self.topics or tuple(self.partitions or ()))

    def reads_positions(self, positions: Any) -> bool:
        """Whether these are offsets of topics that are read here."""
        if not isinstance(positions, dict) or not all(isinstance(each, dict) for each in positions.values()):
            return False
        return bool(self.pattern) or set(positions) <= {*self.topics, *(self.partitions or ())}

    def resume(self, positions: Any, identity: Mapping[str, str]) -> tuple[Any, list[Gap]]:
        """Where to go on, by `on_data_loss`."""
        return kafka_positions.resumed(self.servers, positions, identity, self.on_data_loss)

    def missing(self, start: Any, end: Any, rows: int) -> list[Gap]:
        """Records that expired between the plan of a batch and its reading."""
        return kafka_positions.missing(self.servers, start, end, rows) if self.on_data_loss != "fail" else []

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
        milliseconds = str(_milliseconds(self.start))
        return {"startingTimestamp": milliseconds, "startingOffsetsByTimestampStrategy": "latest"}

    def _before_end(self, rows: DataFrame) -> DataFrame:
        # Spark bounds only batch reads; on a stream the records past the end are left out instead.
        from pyspark.sql import functions as F  # noqa: N812

        if isinstance(self.end, str):
            return rows.where(F.col("timestamp") < F.timestamp_millis(F.lit(_milliseconds(self.end))))
        kept = F.lit(False)
        for topic, partitions in (self.end or {}).items():
            for partition, offset in partitions.items():
                here = (F.col("topic") == topic) & (F.col("partition") == int(partition))
                kept = kept | (here & (F.col("offset") < offset))
        return rows.where(kept)


class KafkaSink(_Kafka, SinkOptions):
    """Records of a Kafka topic; at-least-once: a batch that is replayed after a crash is sent again."""

    kind: ClassVar[str] = "kafka"
    triggers = ALL_TRIGGERS
    promise: ClassVar[str] = "at-least-once: a batch that is replayed after a crash is sent again"

    servers: str = Field(min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    topic: str | None = Field(default=None, min_length=1, description="The topic to write to.")
    topic_column: str | None = Field(default=None, description="The column that holds each row's topic.")
    key: str | None = Field(default=None, description="The column that becomes the record's key.")
    value: Literal["json", "avro"] = Field(default="json", description="How the row becomes the record's value.")
    value_column: str | None = Field(default=None, description="Send this column as it is instead of the whole row.")
    avro_schema: str | None = Field(
        default=None, description="The Avro schema to write with; by default the row's own."
    )
    headers: str | None = Field(default=None, description="The column with headers: array<struct<key, value>>.")

    _check_options = field_validator("options")(kafka_settings.refuse_forbidden)

    @model_validator(mode="after")
    def _has_a_topic(self) -> Self:
        if bool(self.topic) == bool(self.topic_column):
            raise ValueError("give one of 'topic' and 'topic_column'")
        if self.avro_schema and self.value != "avro":
            raise ValueError("'avro_schema' needs 'value: avro'")
        return self

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """Avro values need their jar too."""
        return ("kafka", "avro") if self.value == "avro" else ("kafka",)

    def preflight(self, wait_seconds: float, say: Callable[[str], None]) -> None:
        """An error in our words if the brokers do not answer or the topic is missing."""
        require_topics(self.servers, (self.topic,) if self.topic else (), wait_seconds, say)

    @property
    def native(self) -> bool:
        """Spark sends records by itself."""
        return True

    def write(self, rows: DataFrame) -> DataStreamWriter:
        """A writer of key, value, topic and headers."""
        return self.records(rows).writeStream.format("kafka").options(**self._writer_options())

    def write_batch(self, rows: DataFrame, batch: Batch) -> None:  # noqa: ARG002
        """Send one batch; a replayed one is sent again."""
        self.records(rows).write.format("kafka").options(**self._writer_options()).save()

    def _writer_options(self) -> dict[str, str]:
        options = {"kafka.bootstrap.servers": self.servers, **kafka_settings.PRODUCER, **self.spark_options}
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


def require_topics(servers: str, topics: tuple[str, ...], wait_seconds: float, say: Callable[[str], None]) -> None:
    """Wait for the brokers at most so long, then for every topic to be there."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    quiet: dict[str, Any] = {"log_level": 0, "error_cb": lambda _: None, "socket.connection.setup.timeout.ms": 5000}
    admin = AdminClient({"bootstrap.servers": servers, **quiet})
    deadline = time.monotonic() + wait_seconds
    while True:
        left = deadline - time.monotonic()
        try:
            known = admin.list_topics(timeout=max(1.0, min(5.0, left))).topics
            break
        except KafkaException as error:
            if time.monotonic() >= deadline:
                says = f"no Kafka broker answers at {servers} after {wait_seconds:.0f} s"
                fix = "start it (penstock dev up kafka runs one here) or correct 'servers'"
                raise UnreachableError(f"{says}; {fix}") from error
            say(f"waiting for a Kafka broker at {servers} ({max(0, left):.0f} s left)")
    missing = tuple(topic for topic in topics if topic not in known)
    if missing:
        raise MissingTopicError(servers, missing, sorted(name for name in known if not name.startswith("__")))


class MissingTopicError(PenstockError):
    """The broker has no such topic."""

    def __init__(self, servers: str, topics: tuple[str, ...], others: list[str]) -> None:
        self.servers, self.topics = servers, topics
        names = listed((repr(topic) for topic in topics), "and")
        near = nearest(topics[0], others)
        there = listed(others[:_SHOWN_TOPICS], "and") if others else "no topic yet"
        fix = f"did you mean {near!r}?" if near else f"create it first; there is {there}"
        super().__init__(f"Kafka at {servers} has no topic {names}; {fix}")


def create_topics(servers: str, topics: tuple[str, ...], partitions: int = 2) -> None:
    """Make topics that are not there yet."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    made = admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics])
    for topic, future in made.items():
        try:
            future.result(timeout=30)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise UnreachableError(f"Kafka at {servers} did not create topic {topic!r}: {error}") from error


def _milliseconds(moment: str) -> int:
    try:
        parsed = datetime.fromisoformat(moment.strip().replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{moment!r} is not earliest, latest, offsets or a time like '2024-05-01 12:00:00'") from None
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)
    return int(zoned.timestamp() * 1000)


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps({topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()})
