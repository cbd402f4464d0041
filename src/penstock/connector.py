"""The connector contract: what a source or a sink must have, and what it may have.

A connector is a frozen class of options; its fields are what a user can write in the file. Everything else is a
class variable with a default, or one of the capabilities below: small protocols that a connector implements by having
their methods.

    supervisor   loading and checking: class variables, `jar_groups`, `user_code`, `refuses_mode`, `check_columns`,
                 `columns_warning`
    driver       before Spark: `probe`, `with_service_address`, `resolve_remote`, `resume`
                 with Spark: `read` or `read_static` once per start; `open` once per target and start,
                 then `Writer.write` once per batch, from a thread of that target
    executors    only what `read`, `write` and steps hand to Spark

A connector of another package subclasses `SourceOptions` or `SinkOptions` and names the class in the entry point group
`penstock.sources` or `penstock.sinks`. `penstock.testing.connectors` has the tests that each of them must pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from pydantic import Field

from penstock.options import Options, absolute_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType
    from typing_extensions import Self

MODES = ("append", "update", "complete")
MICRO_BATCHES = frozenset({"default", "interval", "once", "available-now"})
ALL_TRIGGERS = MICRO_BATCHES | {"continuous", "real-time"}

EPOCH = "1970-01-01 00:00:00"
"""The time of test records that have none."""

PrintStatus = Callable[[str], None]
"""Takes a line for the user."""


@dataclass(frozen=True)
class Fact:
    """One thing about an outside system that was checked and is fine."""

    what: str
    says: str


@dataclass(frozen=True)
class Gap:
    """Records of a source that are lost or skipped; `end` is the first offset after them."""

    topic: str
    partition: int
    start: int
    end: int
    why: str

    @property
    def count(self) -> int:
        """The number of records; 0 if it is not known."""
        return self.end - self.start


@dataclass(frozen=True)
class LookupRequest:
    """Which columns of a table to add to rows, by which key."""

    on: Mapping[str, str]
    """Columns of the rows, and the columns of the table that they must equal."""
    columns: Mapping[str, str]
    """New columns, and the columns of the table that they come from; all but the key if empty."""
    kind: str = "left"
    cache_seconds: float = 0.0
    concurrency: int = 64


@dataclass(frozen=True)
class Batch:
    """Which batch is written, and by which writer; a replayed batch has the same number and the same query."""

    number: int
    query: str
    """Spark's id of the checkpoint: another checkpoint counts its batches from 0 again."""
    writer: str
    """`pipeline.sink.target`: the same in every run."""
    mode: str = "append"


@dataclass(frozen=True)
class Call:
    """The arguments of a call of user code, by the names that they have in messages."""

    arguments: tuple[str, ...] = ()
    by_name: bool = False
    """Whether they are passed as keywords, so that the parameters must have these names."""


@dataclass(frozen=True)
class UserCode:
    """Python code that an option names, and how it is called: `check` compares the two and does not run the code."""

    option: str
    path: str
    """`module:name`"""
    call: Call = Call()
    """How the function is called, or the class."""
    methods: Mapping[str, Call] = field(default_factory=dict)
    """How methods of the object that it returns are called."""
    optional: frozenset[str] = frozenset()
    """Methods that it need not have."""
    base: str = ""
    """The class of Spark that it derives from: a class must, if `is_class`; otherwise it may."""
    inherited: frozenset[str] = frozenset()
    """Methods that it need not have if it derives from `base`."""
    is_class: bool = False
    """Whether it must be a class; otherwise a function will do."""


class ConnectorOptions(Options):
    """What sources and sinks have in common."""

    jars: ClassVar[tuple[str, ...]] = ()
    session: ClassVar[Mapping[str, str]] = {}
    """Settings that the Spark session must have from its start."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Options that are paths: relative ones start at the folder of the pipeline file."""
    runs_user_code: ClassVar[bool] = False
    """Whether it imports Python modules from the folder of the pipeline file."""

    options: dict[str, Any] = Field(default={}, description="Passed unchanged to Spark's connector.")

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The Python code that options name as `module:name`."""
        return ()

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """The groups of jars that these options need on the session."""
        return self.jars

    @property
    def path_option(self) -> str | None:
        """The folder that is read or written; None for a system that has no paths."""
        return getattr(self, "path", None) if "path" in self.paths else None

    @property
    def sends_plaintext_password(self) -> bool:
        """Whether these options log in without encryption."""
        return False

    def with_absolute_paths(self, folder: Path) -> Self:
        """The same options with every path absolute; relative ones start at `folder`."""
        absolute = {name: absolute_path(folder, value) for name in self.paths if (value := getattr(self, name))}
        changed = {name: value for name, value in absolute.items() if value != getattr(self, name)}
        return self.model_copy(update=changed) if changed else self

    @property
    def spark_options(self) -> dict[str, str]:
        """`options` as Spark takes them: text, with true and false in lower case."""
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.options.items()
        }


class SourceOptions(ConnectorOptions):
    """Options of a source; it has `read` (a stream), `read_static` (a table), or both."""

    replayable: ClassVar[bool] = True
    triggers: ClassVar[frozenset[str]] = MICRO_BATCHES
    value_column: ClassVar[str | None] = None
    """The column of bytes or text that can be decoded; None if rows come with columns."""
    has_keys: ClassVar[bool] = False
    promise: ClassVar[str] = "replayable: a restart continues from the checkpoint"

    @property
    def declared_schema(self) -> str | None:
        """The columns that the file declares for this source, as DDL; None if it declares none."""
        return getattr(self, "schema_", None)

    @property
    def infers_schema(self) -> bool:
        """Whether the columns are taken from the data."""
        return False

    @property
    def spark_columns(self) -> str | None:
        """The columns that `read` returns, as DDL, from these options alone; None if only the outside system knows."""
        return self.declared_schema

    @property
    def spark_description(self) -> tuple[str, ...]:
        """Words that identify this source in Spark's description of it."""
        return ()

    @property
    def on_reset(self) -> str:
        """What a new checkpoint reads, as a clause for the user."""
        return "is read from its beginning"

    def record_facts(self, name: str, number: int) -> Any:  # noqa: ARG002
        """For tests: the value of a metadata column (`topic`, `offset`) of the n-th given record."""
        return EPOCH if name == "timestamp" else None

    def columns(self, spark: SparkSession) -> StructType:
        """The columns that `read` returns; for tests, so without reaching the outside system or its files."""
        return self.read(spark).schema  # type: ignore[attr-defined,no-any-return]


class Writer(ABC):
    """Writes the batches of one target; created by `SinkOptions.open`, holds all state that outlives a batch.

    `write` is called once per batch, in order, by one thread at a time. When it raises, the batch fails and is replayed
    with the same `Batch`, possibly by another process that calls `open` first: the result must be the same as if it had
    been written once, or the sink's `promise` says otherwise. A `PenstockError` with `retry = False` stops the pipeline
    instead. `close` is called when the query has ended; it must not raise.
    """

    @abstractmethod
    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write one batch; return only when the target has it and would keep it through a power cut."""

    def last_batch(self, batch: Batch) -> int | None:  # noqa: ARG002
        """The last batch of `batch.writer` and `batch.query` that the target itself has; None if it cannot tell.

        Asked once per start, with the batch that the ledger has: a lower answer means that the target has lost rows.
        """
        return None

    def close(self) -> None:  # noqa: B027  most writers hold nothing
        """Release what the writer holds."""


class SinkOptions(ConnectorOptions):
    """Options of a sink: `open` as a target of a fan-out, `write_stream` if Spark writes it by itself."""

    modes: ClassVar[frozenset[str]] = frozenset(MODES)
    triggers: ClassVar[frozenset[str]] = MICRO_BATCHES
    promise: ClassVar[str]
    """The delivery guarantee: begins with exactly-once, idempotent, at-least-once or none."""
    has_checkpoint: ClassVar[bool] = True
    can_share: ClassVar[bool] = True
    """Whether it can be one of several targets."""
    upserts: ClassVar[bool] = False
    """Whether a replayed batch is harmless only because its rows have the same keys again."""
    prints_rows: ClassVar[bool] = False
    """Whether it writes to standard output."""

    @property
    def native(self) -> bool:
        """Whether Spark writes this by itself when it is the only target; then it has `write_stream`."""
        return False

    @property
    def log_url(self) -> str:
        """The log that Spark keeps with the data of this target; '' if it keeps none."""
        return ""

    @property
    def destination(self) -> tuple[str, ...] | None:
        """The option that names where rows go, its value, and the system; None if that is not known from the options.

        Two sinks of one file with the same destination are reported by `check`.
        """
        return None

    def write_stream(self, rows: DataFrame) -> DataStreamWriter:
        """Spark's own writer of the rows, not started; only for `native` sinks."""
        raise NotImplementedError(f"{self.kind} is not written by Spark itself")

    def refuses_mode(self, mode: str) -> str | None:  # noqa: ARG002
        """Why these options cannot write a mode, and what to do; None if they can."""
        return None

    def columns_warning(self, columns: Sequence[str]) -> tuple[str, str] | None:  # noqa: ARG002
        """What is probably not meant when rows of these columns are written, and what to do; None if nothing."""
        return None

    def on_replay(self, mode: str) -> str:  # noqa: ARG002
        """What happens to rows that the target gets again after a reset, as a clause for the user."""
        return "gets the rows again, in addition to those that it has"

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:
        """Raise if rows of these columns can never be written; must reach neither the outside system nor Spark.

        `columns` has Spark's `simpleString` of each type, or '' where `check` does not know it.
        """

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:
        """Create what the options ask for, compare the schema with the target's, and return its writer.

        Called once per start, before the first batch; an error names every column that does not match.
        """
        raise NotImplementedError(f"{self.kind} cannot be one of several targets")


class BuildsRows(Protocol):
    """Builds rows from other rows."""

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:
        """The rows, from the streams that are read."""
        ...


class StepOptions(Options):
    """Options of a step, which builds rows from other rows."""

    runs_user_code: ClassVar[bool] = False
    """Whether it imports Python modules from the folder of the pipeline file."""

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The Python code that options name as `module:name`."""
        return ()

    @property
    def named_columns(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """What options name: an option, a stream that is read, and columns of it."""
        return iter(())

    def bind_tables(self, tables: Mapping[str, SourceOptions]) -> BuildsRows:  # noqa: ARG002
        """What builds the rows of this step, given the systems behind the static tables; tests have rows instead."""
        return self

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:
        """The rows of this step, from the streams that it reads."""
        raise NotImplementedError


@runtime_checkable
class Stream(Protocol):
    """Can be read as a stream."""

    def read(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame; called once per start."""
        ...


@runtime_checkable
class StaticTable(Protocol):
    """Can be read as a static table and joined with streams."""

    def read_static(self, spark: SparkSession) -> DataFrame:
        """Everything that is there now; called at the start and at every refresh."""
        ...


@runtime_checkable
class Versioned(Protocol):
    """A static table that can tell whether it has changed; needed for `refresh: on change`."""

    @property
    def tells_changes(self) -> bool:
        """Whether these options allow calling `version`."""
        ...

    def version(self) -> object:
        """A value that differs when the table has changed; asked every second from a separate thread."""
        ...


@runtime_checkable
class LookupTable(Protocol):
    """Can be read key by key by a `lookup` step."""

    def look_up(self, rows: DataFrame, lookup: LookupRequest) -> DataFrame:
        """The rows joined with the table's rows of the same key; reads nothing else of the table."""
        ...


@runtime_checkable
class Probeable(Protocol):
    """Can check, before Spark starts, that the outside system will serve these options."""

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """What was checked, fact by fact; raises `UnreachableError` or `RefusedError` at the first failure."""
        ...


@runtime_checkable
class Embeddable(Protocol):
    """Can use a service that Penstock runs on this machine (`servers: embedded`)."""

    @property
    def services(self) -> tuple[str, ...]:
        """The services that these options ask for; empty if they name an address."""
        ...

    def with_service_address(self, service: str, address: str) -> Any:
        """The same options with the service replaced by its address."""
        ...

    def create_missing(self, error: Exception) -> str | None:
        """Create on the embedded service what `probe` did not find; a line for the user, or None if it cannot."""
        ...


@runtime_checkable
class RemoteOptions(Protocol):
    """Has options that only the outside system can resolve."""

    def resolve_remote(self) -> Any:
        """The same options, resolved; called once, after `probe`."""
        ...


@runtime_checkable
class Resumable(Protocol):
    """Can check that the positions of a checkpoint are still valid."""

    @property
    def skips_lost_data(self) -> bool:
        """Whether the file allows continuing when records are lost."""
        ...

    def identity(self) -> dict[str, str]:
        """The outside system's own ids of what is read: a recreated topic has a new one."""
        ...

    def reads_positions(self, positions: Any) -> bool:
        """Whether these positions, as a checkpoint holds them, belong to this source."""
        ...

    def resume(self, positions: Any, identity: Mapping[str, str]) -> tuple[Any, list[Gap]]:
        """Where to continue, and what is skipped; raises if nothing may be skipped."""
        ...

    def missing(self, start: Any, end: Any, rows: int) -> list[Gap]:
        """The records of a batch's range that were lost before it was read."""
        ...


@runtime_checkable
class OffsetCommitter(Protocol):
    """Publishes its progress to the outside system, for other tools to see."""

    def offset_committer(self) -> Callable[[Any], None] | None:
        """Takes the position of this source after each batch, in a separate thread; None if not asked for."""
        ...


@runtime_checkable
class Previewable(Protocol):
    """Can be read differently for a preview."""

    def for_preview(self, start: str, batch_rows: int) -> Any:
        """The same options from now (`latest`) or the beginning (`earliest`), with at most this many rows per batch."""
        ...


@runtime_checkable
class Feedable(Protocol):
    """`penstock feed` can write to what this source reads or this sink writes."""

    def sender(self) -> Any:
        """The Kafka sink that writes there; ValueError if the options name no single topic."""
        ...


@runtime_checkable
class FailureExplainer(Protocol):
    """Explains failures of its system."""

    def explain(self, failure: str) -> str | None:
        """A failed query's message in our words, with what to do; None if this connector does not know it."""
        ...
