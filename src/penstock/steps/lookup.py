"""A join with a large static table that reads only the keys of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from penstock.connector import BuildsRows, LookupRequest, LookupTable, SourceOptions, StepOptions
from penstock.errors import BuildError
from penstock.options import Duration, quote, seconds
from penstock.spark import column
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEY = "_penstock_key_"


def _as_pairs(value: object) -> object:
    """`a, b` or [a, b] as {a: a, b: b}."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    return {each: each for each in value} if isinstance(value, list | tuple) else value


Pairs = Annotated[
    dict[str, str], BeforeValidator(_as_pairs, json_schema_input_type=str | tuple[str, ...] | dict[str, str])
]


class LookupStep(StepOptions):
    """Rows joined with a table by key; only the keys of the batch are read from the table."""

    kind: ClassVar[str] = "lookup"

    source: str = Field(alias="from", description="The stream to read.")
    table: str = Field(alias="in", description="The static source to look into.")
    on: Pairs = Field(min_length=1, description="The key: [column], or {column: column of the table}.")
    columns: Pairs = Field(
        default={}, description="What to add: [column], or {new name: column of the table}; all by default."
    )
    join: Literal["left", "inner"] = Field(
        default="left", alias="kind", description="Whether a row without a match is kept, with nulls, or dropped."
    )
    cache: Duration | None = Field(default=None, description="How long a result is cached.")
    concurrency: int = Field(default=64, ge=1, le=1024, description="Maximum requests in flight per worker.")

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream and the table."""
        return (self.source, self.table)

    @property
    def named_columns(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Those to look up, and what is added."""
        yield "on", self.source, list(self.on)
        yield "on", self.table, list(self.on.values())
        yield "columns", self.table, list(self.columns.values())

    def bind_tables(self, tables: Mapping[str, SourceOptions]) -> BuildsRows:
        """The step bound to the system behind its table."""
        table = tables.get(self.table)
        return self if not isinstance(table, LookupTable) else _BoundLookup(step=self, table=table)

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The rows joined with the table's rows; for tests, which have no outside system."""
        return self.look_up(streams[self.source], lambda rows: _join(rows, streams[self.table], self.request))

    def look_up(self, rows: DataFrame, add_columns: Callable[[DataFrame], DataFrame]) -> DataFrame:
        """The rows with what `add_columns` finds for their keys; an error for columns that collide or are missing."""
        for name in self.on:
            if name not in rows.columns:
                raise BuildError(f"there is no column {name!r} to look up; {did_you_mean(name, rows.columns)}")
        found = add_columns(rows)
        twice = [name for name in found.columns if found.columns.count(name) > 1]
        if twice:
            fix = f"rename what is added: columns: {{table_{twice[0]}: {twice[0]}}}"
            raise BuildError(f"both the rows and the table have {twice[0]!r}; {fix}")
        return found

    @property
    def request(self) -> LookupRequest:
        """The request to the table."""
        cache_seconds = seconds(self.cache) if self.cache else 0.0
        return LookupRequest(self.on, self.columns, self.join, cache_seconds, self.concurrency)


@dataclass(frozen=True)
class _BoundLookup:
    """A lookup step with the system behind its table."""

    step: LookupStep
    table: LookupTable

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The rows with the columns that were looked up."""
        return self.step.look_up(streams[self.step.source], lambda rows: self.table.look_up(rows, self.step.request))


def _join(rows: DataFrame, table: DataFrame, lookup: LookupRequest) -> DataFrame:
    keys = [column(theirs).alias(f"{_KEY}{number}") for number, theirs in enumerate(lookup.on.values())]
    added = lookup.columns or {name: name for name in table.columns if name not in lookup.on.values()}
    other = table.select(*keys, *(column(theirs).alias(ours) for ours, theirs in added.items()))
    same: Any = [rows[quote(ours)] == other[f"{_KEY}{number}"] for number, ours in enumerate(lookup.on)]
    return rows.join(other, same, lookup.kind).drop(*(f"{_KEY}{number}" for number in range(len(lookup.on))))
