"""Records of Kafka topics as a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from penstock.connector import ALL_TRIGGERS, EPOCH, Fact, Gap, PrintStatus, SourceOptions
from penstock.connectors.kafka import _offsets, settings
from penstock.connectors.kafka._broker_probe import BrokerProbe
from penstock.connectors.kafka._common import KafkaOptions
from penstock.connectors.kafka.sink import KafkaSink
from penstock.options import Names, parse_time
from penstock.text import join_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)
_HEADERS = "headers array<struct<key: string, value: binary>>"
_REFUSED_TOPICS = re.compile(r"Not authorized to access topics: \[([^\]]*)\]")
_REFUSALS = (
    ("SaslAuthenticationException", "no longer takes our user and password; correct 'sasl'"),
    ("SslAuthenticationException", "and we no longer trust each other's certificates; check 'tls'"),
    ("GroupAuthorizationException", "does not let us use our consumer group; have an ACL added for it"),
)
Offsets = dict[str, dict[int | str, int]]
Position = Literal["earliest", "latest"] | Offsets | str


class KafkaSource(KafkaOptions, SourceOptions):
    """Records of Kafka topics; replayable, so a restart continues from the checkpoint."""

    kind: ClassVar[str] = "kafka"
    triggers = ALL_TRIGGERS
    value_column: ClassVar[str | None] = "value"
    has_keys: ClassVar[bool] = True

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
        default=None, description="Skip records from here on: a time, or {topic: {partition: offset}}."
    )
    records_per_trigger: int | None = Field(default=None, ge=1, description="Maximum records in one batch.")
    min_partitions: int | None = Field(default=None, ge=1, description="Read in at least this many Spark partitions.")
    headers: bool = Field(default=False, description="Add the records' headers.")
    on_data_loss: Literal["fail", "skip", "earliest"] = Field(
        default="fail",
        description="When records are lost before they were read: stop, or continue at the next or the first.",
    )
    commit_to_group: str | None = Field(
        default=None, min_length=1, description="A consumer group to commit offsets to after each batch."
    )

    @field_validator("start", "end")
    @classmethod
    def _is_a_position(cls, position: Position | None) -> Position | None:
        if isinstance(position, str) and position not in ("earliest", "latest"):
            milliseconds(position)
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

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Check that the brokers accept us and have the topics, and that we may read them."""
        client = settings.client_options(self.options)
        topics = self.topics or tuple(self.partitions or ())
        yield from BrokerProbe(self.servers, self.security, topics, "read", client).run(wait_seconds, print_status)

    def sender(self) -> KafkaSink:
        """The sink that writes to the topic read here, for a feed; ValueError unless it is one topic."""
        if len(self.topics) != 1:
            raise ValueError(f"it reads {len(self.topics)} topics by name, and a feed writes to one")
        return KafkaSink.model_construct(
            servers=self.servers, tls=self.tls, sasl=self.sasl, options=self.options, topic=self.topics[0]
        )

    def offset_committer(self) -> Callable[[Any], None] | None:
        """Commits the end of each batch to `commit_to_group`, so that Kafka tools can show the lag."""
        if not self.commit_to_group:
            return None
        return _offsets.open_committer(self.client_settings, self.commit_to_group)

    def for_preview(self, start: str, batch_rows: int) -> Self:
        """From now or the beginning, in small batches; lost records do not end a preview."""
        limit = min(batch_rows, self.records_per_trigger or batch_rows)
        return self.model_copy(
            update={"start": start, "records_per_trigger": limit, "on_data_loss": "skip", "commit_to_group": None}
        )

    @property
    def spark_columns(self) -> str:
        """The columns that Spark's connector returns for every topic."""
        return f"{_COLUMNS}, {_HEADERS}" if self.headers else _COLUMNS

    def columns(self, spark: SparkSession) -> StructType:
        """The columns that `read` returns, without reading the files of `tls`."""
        return self.model_copy(update={"tls": None, "sasl": None}).read(spark).schema

    def read(self, spark: SparkSession) -> DataFrame:
        """key, value, topic, partition, offset, timestamp, timestampType, and headers if enabled."""
        options = {
            "kafka.bootstrap.servers": self.servers,
            **self.security.spark(),
            **settings.CONSUMER,
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

    @property
    def on_reset(self) -> str:
        """By `start`."""
        if isinstance(self.start, dict):
            return "is read from the offsets of 'start'"
        if self.start == "latest":
            return "is read from then on: what it holds already is skipped"
        return f"is read from {'the first record that is still there' if self.start == 'earliest' else self.start} on"

    def explain(self, failure: str) -> str | None:
        """Records deleted before they were read; a broker that refuses us."""
        if "KAFKA_DATA_LOSS" not in failure and "data may have been lost" not in failure:
            return self._explain_refusal(failure)
        why = "they were deleted or have expired, or the topic was recreated"
        fix = (
            "'on_data_loss: skip' continues without them; another 'storage' or pipeline name starts from the beginning"
        )
        return f"Kafka at {self.servers} no longer has records that the checkpoint expects: {why}; {fix}"

    def _explain_refusal(self, failure: str) -> str | None:
        topics = self.topics or tuple(self.partitions or ())
        if "TopicAuthorizationException" in failure:
            named = _REFUSED_TOPICS.search(failure)
            # A producer names its topics; the offset reader does not, and reads only ours.
            refused = named[1].split(", ") if named else list(topics)
            if not set(refused) & set(topics):
                return None
            names = join_words(map(repr, refused), "and")
            says = f"Kafka at {self.servers} does not let us read topic {names}"
            return f"{says}; have an ACL added that allows READ on it"
        # The client does not say which of the query's brokers it was.
        doctor = "penstock doctor FILE shows which"
        return next((f"a broker of this query {says}; {doctor}" for name, says in _REFUSALS if name in failure), None)

    def record_facts(self, name: str, number: int) -> Any:
        """A record's topic, partition, offset and time."""
        topic = self.topics[0] if self.topics else None
        facts = {"topic": topic, "partition": 0, "offset": number, "timestamp": EPOCH, "timestampType": 0}
        return facts.get(name)

    @property
    def spark_description(self) -> tuple[str, ...]:
        """The topics, unless they are given by a pattern."""
        return self.topics or tuple(self.partitions or ())

    @property
    def skips_lost_data(self) -> bool:
        """Whether `on_data_loss` allows continuing."""
        return self.on_data_loss != "fail"

    def identity(self) -> dict[str, str]:
        """The id of each topic, unless they are given by a pattern."""
        return _offsets.fetch_topic_ids(self.client_settings, self.topics or tuple(self.partitions or ()))

    def reads_positions(self, positions: Any) -> bool:
        """Whether these are offsets of topics read here."""
        if not isinstance(positions, dict) or not all(isinstance(each, dict) for each in positions.values()):
            return False
        return bool(self.pattern) or set(positions) <= {*self.topics, *(self.partitions or ())}

    def resume(self, positions: Any, identity: Mapping[str, str]) -> tuple[Any, list[Gap]]:
        """Where to continue, by `on_data_loss`."""
        return _offsets.resume(self.client_settings, positions, identity, self.on_data_loss)

    def missing(self, start: Any, end: Any, rows: int) -> list[Gap]:
        """Records that expired after a batch was planned and before it was read."""
        return _offsets.find_missing(self.client_settings, start, end, rows) if self.skips_lost_data else []

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
        # A time after the last record starts at the end, like 'latest'.
        moment = str(milliseconds(self.start))
        return {"startingTimestamp": moment, "startingOffsetsByTimestampStrategy": "latest"}

    def _before_end(self, rows: DataFrame) -> DataFrame:
        # Spark supports end offsets only for batch reads; on a stream, later records are filtered out.
        from pyspark.sql import functions as F  # noqa: N812

        if isinstance(self.end, str):
            return rows.where(F.col("timestamp") < F.timestamp_millis(F.lit(milliseconds(self.end))))
        kept = F.lit(False)
        for topic, partitions in (self.end or {}).items():
            for partition, offset in partitions.items():
                here = (F.col("topic") == topic) & (F.col("partition") == int(partition))
                kept = kept | (here & (F.col("offset") < offset))
        return rows.where(kept)


def milliseconds(time: str) -> int:
    """A time as Kafka's milliseconds; ValueError for other text."""
    try:
        return int(parse_time(time).timestamp() * 1000)
    except ValueError:
        raise ValueError(f"{time!r} is not earliest, latest, offsets or a time like '2024-05-01 12:00:00'") from None


def _offsets_json(offsets: Offsets) -> str:
    return json.dumps({topic: {str(p): offset for p, offset in parts.items()} for topic, parts in offsets.items()})
