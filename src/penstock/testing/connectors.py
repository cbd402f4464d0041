"""The tests that every connector must pass: subclass `SinkSuite` or `SourceSuite` in a test module.

    class TestLines(SinkSuite):
        def sink(self, place): return LinesSink(path=str(place))
        def written(self, sink): return [...]

The tests need a fixture `spark`; `penstock.testing.spark.quick_session` creates a session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pydantic import ValidationError

from penstock.connector import (
    ALL_TRIGGERS,
    MODES,
    Batch,
    ConnectorOptions,
    SinkOptions,
    SourceOptions,
    StaticTable,
    Stream,
    Writer,
)
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int, str | None, float | None]

SCHEMA = "id int, name string, amount double"
SOME: list[Row] = [(1, "ann", 1.5), (2, "bob's \"\\ ü", -2.25), (3, None, None)]
MORE: list[Row] = [(4, "eve", 0.0), (5, "", 1e300)]
MANY: list[Row] = [(number, f"n{number}", number / 2) for number in range(6, 506)]

_PROMISES = ("exactly-once", "idempotent", "at-least-once", "none")


def batch(number: int, query: str = "checkpoint", mode: str = "append") -> Batch:
    """A batch of the suite's one writer."""
    return Batch(number, query, "suite.sink.target", mode)


class SinkSuite:
    """Tests of a sink's contract: each test creates a sink in an empty folder, opens it and writes batches."""

    has_columns: ClassVar[bool] = True
    """Whether the target has a schema, which is compared with the columns of the rows."""

    mismatches: ClassVar[Mapping[str, str]] = {
        "id int, name string": "amount",
        "id int, name string, amount double, more int": "more",
        "id int, name string, amount string": "amount",
        "id string, name string, amount double": "id",
    }
    """Schemas that the target does not match, each with the column that the error names."""

    def sink(self, place: Path) -> SinkOptions:
        """A sink for rows of `SCHEMA` with an unused target; `place` is an empty folder."""
        raise NotImplementedError

    def keyed(self, place: Path) -> SinkOptions:
        """The same with the key `id`, for sinks that need a key for mode update."""
        return self.sink(place)

    def written(self, sink: Any) -> Sequence[tuple[Any, ...]]:
        """The rows of the target as (id, name, amount), read without the sink."""
        raise NotImplementedError

    def test_batches_follow_each_other(self, spark: SparkSession, tmp_path: Path) -> None:
        """One of a few rows, an empty one, and one of several partitions."""
        sink, writer = self._open(self.sink(tmp_path), spark)

        writer.write(_rows(spark, SOME), batch(0))
        writer.write(_rows(spark, []), batch(1))
        writer.write(_rows(spark, [*MORE, *MANY]).repartition(4), batch(2))

        assert self._read_sorted(sink) == [*SOME, *MORE, *MANY]

    def test_a_batch_that_failed_or_is_replayed_is_written_once_or_the_promise_says_otherwise(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        """And the numbers of another checkpoint, which start again, are not mistaken for batches already written."""
        sink, writer = self._open(self.sink(tmp_path), spark)
        writer.write(_rows(spark, SOME), batch(0))

        with pytest.raises(Exception, match="on purpose"):
            writer.write(_rows(spark, MORE[:1]).union(_failing(spark)), batch(1))
        # Another run of the same pipeline: it has nothing but the options.
        sink, writer = self._open(_copy(sink), spark)
        writer.write(_rows(spark, MORE), batch(1))
        writer.close()
        self._check_once(sink, [*SOME, *MORE])

        sink, writer = self._open(_copy(sink), spark)
        writer.write(_rows(spark, MORE), batch(1))
        writer.write(_rows(spark, MANY[:2]), batch(0, query="another"))
        self._check_once(sink, [*SOME, *MORE, *MANY[:2]])

    def test_mode_update_replaces_the_row_of_a_key(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self.keyed(tmp_path)
        self._require(sink, "update")
        sink, writer = self._open(sink, spark, "update")

        writer.write(_rows(spark, SOME), batch(0, mode="update"))
        writer.write(_rows(spark, [(2, "bea", 9.0), (4, "eve", 0.0)]), batch(1, mode="update"))
        writer.write(_rows(spark, [(2, "bea", 9.0), (4, "eve", 0.0)]), batch(1, mode="update"))

        assert self._read_sorted(sink) == [SOME[0], (2, "bea", 9.0), SOME[2], (4, "eve", 0.0)]

    def test_mode_complete_replaces_everything(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        self._require(sink, "complete")
        sink, writer = self._open(sink, spark, "complete")

        writer.write(_rows(spark, SOME), batch(0, mode="complete"))
        writer.write(_rows(spark, MORE), batch(1, mode="complete"))
        writer.write(_rows(spark, MORE), batch(1, mode="complete"))

        assert self._read_sorted(sink) == MORE

    def test_columns_that_do_not_match_are_named(
        self, spark: SparkSession, tmp_path: Path, schema: str = "", named: str = ""
    ) -> None:
        sink, _ = self._open(self.sink(tmp_path), spark)

        for mismatch, column in ({schema: named} if schema else self.mismatches).items():
            other = spark.createDataFrame([], mismatch).schema
            if not self.has_columns:
                sink.open(spark, other, "append")
                continue
            with pytest.raises(PenstockError, match=rf"(?i)\b{column}\b"):
                sink.open(spark, other, "append")

    def test_options_are_strict(self, tmp_path: Path) -> None:
        _check_strict(self.sink(tmp_path))

    def test_the_guarantee_is_stated(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)

        assert sink.promise.startswith(_PROMISES)
        assert sink.modes
        assert sink.modes <= set(MODES)
        assert sink.triggers <= ALL_TRIGGERS
        assert sink.can_share

    def _require(self, sink: SinkOptions, mode: str) -> None:
        if mode not in sink.modes or not self.has_columns:
            pytest.skip(f"{sink.kind} has no mode {mode} that replaces rows")

    def _open(self, sink: SinkOptions, spark: SparkSession, mode: str = "append") -> tuple[SinkOptions, Writer]:
        return sink, sink.open(spark, spark.createDataFrame([], SCHEMA).schema, mode)

    def _read_sorted(self, sink: SinkOptions) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.written(sink)), key=lambda row: row[0])

    def _check_once(self, sink: SinkOptions, rows: Sequence[Row]) -> None:
        found = self._read_sorted(sink)
        if sink.promise.startswith(("exactly-once", "idempotent")):
            assert found == list(rows)
        else:
            assert set(found) == set(rows)


class SourceSuite:
    """Tests of a source's contract: what it declares is what Spark reads."""

    def source(self, place: Path) -> SourceOptions:
        """A source that can be read; `place` is an empty folder that may be filled."""
        raise NotImplementedError

    def test_a_stream_streams(self, spark: SparkSession, tmp_path: Path) -> None:
        source = self.source(tmp_path)
        if not isinstance(source, Stream):
            pytest.skip(f"{source.kind} is only a static table")

        assert source.read(spark).isStreaming

    def test_a_static_table_does_not_stream(self, spark: SparkSession, tmp_path: Path) -> None:
        source = self.source(tmp_path)
        if not isinstance(source, StaticTable):
            pytest.skip(f"{source.kind} is only a stream")

        assert not source.read_static(spark).isStreaming

    def test_it_has_the_columns_that_it_declares(self, spark: SparkSession, tmp_path: Path) -> None:
        from pyspark.sql.types import StructType

        source = self.source(tmp_path)
        if source.spark_columns is None:
            pytest.skip(f"only the {source.kind} system knows the columns")
        declared: Any = StructType.fromDDL(source.spark_columns)
        rows = source.read(spark) if isinstance(source, Stream) else source.read_static(spark)  # type: ignore[attr-defined]

        found = {field.name: field.dataType for field in rows.schema}
        assert {field.name: field.dataType for field in declared}.items() <= found.items()

    def test_its_value_can_be_decoded(self, spark: SparkSession, tmp_path: Path) -> None:
        source = self.source(tmp_path)
        has_columns = source.declared_schema or source.infers_schema
        if source.value_column is None or has_columns or not isinstance(source, Stream):
            pytest.skip(f"rows of {source.kind} come with columns")

        assert source.value_column in source.read(spark).columns

    def test_options_are_strict(self, tmp_path: Path) -> None:
        _check_strict(self.source(tmp_path))

    def test_the_guarantee_is_stated(self, tmp_path: Path) -> None:
        source = self.source(tmp_path)

        assert source.promise
        assert source.triggers <= ALL_TRIGGERS
        assert isinstance(source, Stream | StaticTable)


def _check_strict(connector: ConnectorOptions) -> None:
    given = {**_dump(connector), "no_such_option": 1}

    with pytest.raises(ValidationError, match="no_such_option"):
        type(connector).model_validate(given)
    with pytest.raises(ValidationError, match="frozen"):
        connector.options = {}  # type: ignore[misc]
    assert (type(connector).__doc__ or "").strip()
    assert all(field.description for field in type(connector).model_fields.values())


def _copy(sink: SinkOptions) -> SinkOptions:
    return type(sink).model_validate(_dump(sink))


def _dump(connector: ConnectorOptions) -> dict[str, Any]:
    return connector.model_dump(by_alias=True, exclude_unset=True)


def _rows(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def _failing(spark: SparkSession) -> DataFrame:
    text = "SELECT id, CAST(raise_error('on purpose') AS STRING) AS name, 0D AS amount FROM VALUES (99) AS t(id)"
    return spark.sql(text)
