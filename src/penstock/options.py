"""Options, the frozen and strict base of what a connector or a step can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WrapValidator

from penstock.redaction import remember

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType
    from typing_extensions import Self

MODES = ("append", "update", "complete")
MICRO_BATCHES = frozenset({"default", "interval", "once", "available-now"})
ALL_TRIGGERS = MICRO_BATCHES | {"continuous", "real-time"}


class Secret(str):
    """Text that came from outside the file and does not show itself."""

    __slots__ = ()

    def __new__(cls, text: object = "") -> Self:
        made = super().__new__(cls, text)
        remember(made)
        return made

    def __repr__(self) -> str:
        return "'***'"


class OpenSecret(Secret):
    """A secret that stands in the file itself, where anyone who reads the file reads it."""

    __slots__ = ()


def _kept_secret(value: object, validate: Callable[[object], str]) -> Secret:
    text = validate(value)
    return Secret(text) if isinstance(value, Secret) and not isinstance(value, OpenSecret) else OpenSecret(text)


SecretText = Annotated[str, WrapValidator(_kept_secret)]


@dataclass(frozen=True)
class Seen:
    """One thing about an outside system that is well."""

    what: str
    says: str


class Options(BaseModel):
    """A fixed set of named values; an unknown name or a wrong type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())

    kind: ClassVar[str]


class _Connector(Options):
    jars: ClassVar[tuple[str, ...]] = ()
    session: ClassVar[Mapping[str, str]] = {}
    """Settings that the Spark session must have from its start."""
    paths: ClassVar[tuple[str, ...]] = ()

    options: dict[str, Any] = Field(default={}, description="Passed to Spark's connector as they are.")

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """The groups of jars that these options need on the session."""
        return self.jars

    @property
    def services(self) -> tuple[str, ...]:
        """The services of this machine that these options ask for."""
        return ()

    def at(self, service: str, address: str) -> Self:  # noqa: ARG002
        """The same options with a service of this machine replaced by its address."""
        return self

    def with_absolute_paths(self, folder: Path) -> Self:
        """The same options with every path absolute: relative ones are in `folder`."""
        relative = {name: beside(folder, value) for name in self.paths if (value := getattr(self, name))}
        changed = {name: value for name, value in relative.items() if value != getattr(self, name)}
        return self.model_copy(update=changed) if changed else self

    def probe(self, wait_seconds: float, say: Callable[[str], None]) -> Iterator[Seen]:  # noqa: ARG002
        """What the outside system says to these options, fact by fact; an error in our words at the first bad one."""
        yield from ()

    def preflight(self, wait_seconds: float, say: Callable[[str], None]) -> None:
        """An error in our words, before Spark starts, if the outside system cannot serve these options."""
        for _ in self.probe(wait_seconds, say):
            pass

    def resolve_remote(self) -> Self:
        """The same options with what only the outside system knows filled in; asked after `preflight`."""
        return self

    @property
    def spark_options(self) -> dict[str, str]:
        """`options` as Spark takes them: text, with true and false in lower case."""
        return {key: _text(value) for key, value in self.options.items()}


@dataclass(frozen=True)
class Gap:
    """Records of a source that will not be read: gone, or skipped. `end` is the first that will."""

    topic: str
    partition: int
    start: int
    end: int
    why: str

    @property
    def count(self) -> int:
        """How many; 0 if nobody can know."""
        return self.end - self.start


class SourceOptions(_Connector):
    """What a stream can be read from."""

    replayable: ClassVar[bool] = True
    triggers: ClassVar[frozenset[str]] = MICRO_BATCHES
    value_column: ClassVar[str | None] = None
    has_keys: ClassVar[bool] = False
    can_be_stream: ClassVar[bool] = True
    can_be_static: ClassVar[bool] = False
    can_look_up: ClassVar[bool] = False
    """Whether a step `lookup` can read it key by key."""
    tells_changes: ClassVar[bool] = True
    """Whether `version` can tell that a static table has changed."""
    promise: ClassVar[str] = "replayable: a restart reads on from the checkpoint"

    def explain(self, failure: str) -> str | None:  # noqa: ARG002
        """A failure of a query that reads this, in our words; None if it is nothing that this connector knows."""
        return None

    def identity(self) -> dict[str, str]:
        """What the outside system itself calls what is read: a topic that was made anew has another id."""
        return {}

    def reads_positions(self, positions: Any) -> bool:  # noqa: ARG002
        """Whether these positions, as a checkpoint holds them, are of this source."""
        return False

    def resume(self, positions: Any, identity: Mapping[str, str]) -> tuple[Any, list[Gap]]:  # noqa: ARG002
        """Where to go on from a checkpoint's positions, and what is left out; an error if nothing may be."""
        return positions, []

    def missing(self, start: Any, end: Any, rows: int) -> list[Gap]:  # noqa: ARG002
        """What a batch did not get of its range because it is gone."""
        return []

    @property
    def spark_description(self) -> tuple[str, ...]:
        """Words that Spark's own description of this source has in it, by which its reports are told apart."""
        return ()

    @property
    def declared_columns(self) -> str | None:
        """The columns that `read` gives, as DDL, from these options alone; None if only the outside system knows."""
        ddl: str | None = getattr(self, "schema_", None)
        return ddl

    def offset_committer(self) -> Callable[[Any], None] | None:
        """What is to be told the position of this source after each batch, as Spark reports it; None for nobody."""
        return None

    def for_preview(self, start: str, batch_rows: int) -> Self:  # noqa: ARG002
        """The same for a look: from now (`latest`) or the beginning (`earliest`), at most so many rows a batch."""
        return self

    def read(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame."""
        raise NotImplementedError

    def columns(self, spark: SparkSession) -> StructType:
        """The columns that `read` gives; for a test, so without reaching the outside system or its files."""
        return self.read(spark).schema

    def read_static(self, spark: SparkSession) -> DataFrame:
        """Everything that is there now, as a table beside the streams."""
        raise NotImplementedError

    def look_up(self, rows: DataFrame, lookup: Lookup) -> DataFrame:
        """The rows with what the table has for their keys, reading nothing else of it."""
        raise NotImplementedError

    def version(self) -> object:
        """Something that differs when the table beside the streams has changed."""
        raise NotImplementedError


@dataclass(frozen=True)
class Lookup:
    """What of a table is added to rows, by their keys."""

    on: Mapping[str, str]
    """Columns of the rows, and those of the table that they must equal."""
    columns: Mapping[str, str]
    """New columns, and those of the table that they come from; all but the key if there are none."""
    kind: str = "left"
    cache_seconds: float = 0.0
    concurrency: int = 64


@dataclass(frozen=True)
class Batch:
    """Which batch is written, and for whom; a replayed batch has the same number and the same query."""

    number: int
    query: str
    """Spark's id of the checkpoint: numbers begin again with another one."""
    writer: str
    """`pipeline.sink.target`: the same in every run."""
    mode: str = "append"


class SinkOptions(_Connector):
    """Where rows can be written to: `write` if Spark does it by itself, `write_batch` as one of several targets."""

    modes: ClassVar[frozenset[str]] = frozenset(MODES)
    triggers: ClassVar[frozenset[str]] = MICRO_BATCHES
    promise: ClassVar[str]
    has_checkpoint: ClassVar[bool] = True
    can_share: ClassVar[bool] = True
    """Whether it can be one of several targets."""
    upserts: ClassVar[bool] = False
    """Whether a replayed batch is harmless only because its rows have the same keys again."""

    @property
    def native(self) -> bool:
        """Whether Spark writes this by itself when it is the only target."""
        return False

    @property
    def log_url(self) -> str:
        """The log that Spark keeps beside the data of this target; '' if it keeps none."""
        return ""

    def write(self, rows: DataFrame) -> DataStreamWriter:
        """A writer of the rows, not started."""
        raise NotImplementedError

    def unfit(self, mode: str) -> str | None:  # noqa: ARG002
        """Why these options cannot write a mode, and what to do; None if they can."""
        return None

    def columns_warning(self, columns: Sequence[str]) -> tuple[str, str] | None:  # noqa: ARG002
        """What is probably not meant when rows of these columns are written, and what to do; None if nothing."""
        return None

    def check_columns(self, schema: StructType, mode: str) -> None:
        """An error if rows of these columns can never be written; reaches no outside system."""

    def fit(self, spark: SparkSession, schema: StructType, mode: str) -> None:
        """Before the first batch: make what is asked for; an error names every column that does not fit."""

    def write_batch(self, rows: DataFrame, batch: Batch) -> None:
        """Write one batch; when it is replayed after a crash, in part or whole, the result is the same."""
        raise NotImplementedError


class StepOptions(Options):
    """How rows are made from other rows."""

    def beside(self, tables: Mapping[str, SourceOptions]) -> Self:  # noqa: ARG002
        """The same step, knowing the systems behind the static tables that it reads; a test gives rows instead."""
        return self

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:
        """The rows of this step, from those that it reads."""
        raise NotImplementedError


def beside(folder: Path, path: str) -> str:
    """A path made absolute; a URL stays as it is."""
    return path if "://" in path or Path(path).is_absolute() else str((folder / path).resolve())


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _duration(text: str) -> str:
    import re

    unit = r"(millisecond|second|minute|hour|day|week)s?"
    if not re.fullmatch(rf"\d+ {unit}( \d+ {unit})*", text.strip()):
        msg = f"{text!r} is not a duration; write a number and a unit, like '10 minutes'"
        raise ValueError(msg)
    return text.strip()


def _as_list(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return tuple(value) if isinstance(value, list) else value


def seconds(duration: str) -> float:
    """The length of a duration like '1 hour 30 minutes'."""
    words = duration.split()
    return sum(int(count) * _SECONDS[unit.rstrip("s")] for count, unit in zip(words[::2], words[1::2], strict=True))


_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

Duration = Annotated[str, AfterValidator(_duration)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]
