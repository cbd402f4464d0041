"""The tests that every sink passes: subclass `SinkSuite` in a test module, say how a sink is made and read back.

    class TestLines(SinkSuite):
        def sink(self, place): return LinesSink(path=str(place))
        def written(self, sink): return [...]

A fixture `spark` must be there; `penstock.testing.spark.quick_session` makes one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pydantic import ValidationError

from penstock.errors import PenstockError
from penstock.options import MODES, Batch, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int, str | None, float | None]

SCHEMA = "id int, name string, amount double"
SOME: list[Row] = [(1, "ann", 1.5), (2, "bob's \"\\ ü", -2.25), (3, None, None)]
MORE: list[Row] = [(4, "eve", 0.0), (5, "", 1e300)]

_PROMISES = ("exactly-once", "at-least-once", "for looking")


def batch(number: int, query: str = "checkpoint", mode: str = "append") -> Batch:
    """A batch of the suite's one writer."""
    return Batch(number, query, "suite.sink.target", mode)


class SinkSuite:
    """What a sink promises, tried on it: each test makes a sink at a fresh place, fits it and hands it batches."""

    has_columns: ClassVar[bool] = True
    """Whether what is written to has columns of its own, which `fit` compares with those of the rows."""

    def sink(self, place: Path) -> SinkOptions:
        """A sink for rows of `SCHEMA` that nobody else writes to; `place` is an empty folder."""
        raise NotImplementedError

    def keyed(self, place: Path) -> SinkOptions:
        """The same with the key `id`; for sinks that have mode update and no key of their own."""
        return self.sink(place)

    def written(self, sink: Any) -> Sequence[tuple[Any, ...]]:
        """The rows that are there, as (id, name, amount), read by something else than the sink."""
        raise NotImplementedError

    def test_a_batch_is_written(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._fitted(self.sink(tmp_path), spark)

        sink.write_batch(_rows(spark, SOME), batch(0))

        assert self._found(sink) == SOME

    def test_batches_follow_each_other(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._fitted(self.sink(tmp_path), spark)

        sink.write_batch(_rows(spark, SOME), batch(0))
        sink.write_batch(_rows(spark, []), batch(1))
        sink.write_batch(_rows(spark, MORE), batch(2))

        assert self._found(sink) == [*SOME, *MORE]

    def test_a_batch_of_several_partitions_is_written_whole(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._fitted(self.sink(tmp_path), spark)
        many: list[Row] = [(number, f"n{number}", number / 2) for number in range(500)]

        sink.write_batch(_rows(spark, many).repartition(4), batch(0))

        assert self._found(sink) == many

    def test_a_replayed_batch_is_written_once_or_the_promise_says_otherwise(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        sink = self._fitted(self.sink(tmp_path), spark)
        sink.write_batch(_rows(spark, SOME), batch(0))
        sink.write_batch(_rows(spark, MORE), batch(1))

        # Another run of the same pipeline: it knows nothing but its options.
        again = self._fitted(self._copy(sink), spark)
        again.write_batch(_rows(spark, MORE), batch(1))

        self._check_once(again, [*SOME, *MORE])

    def test_a_batch_that_failed_half_way_is_written_by_the_replay(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self._fitted(self.sink(tmp_path), spark)
        sink.write_batch(_rows(spark, SOME), batch(0))
        torn = _rows(spark, MORE[:1]).union(_failing(spark))

        with pytest.raises(Exception, match="on purpose"):
            sink.write_batch(torn, batch(1))
        again = self._fitted(self._copy(sink), spark)
        again.write_batch(_rows(spark, MORE), batch(1))

        self._check_once(again, [*SOME, *MORE])

    def test_another_checkpoint_is_another_writer(self, spark: SparkSession, tmp_path: Path) -> None:
        """Its numbers begin again, and must not be taken for those that are written."""
        sink = self._fitted(self.sink(tmp_path), spark)

        sink.write_batch(_rows(spark, SOME), batch(0))
        sink.write_batch(_rows(spark, MORE), batch(0, query="another"))

        assert self._found(sink) == [*SOME, *MORE]

    def test_mode_update_replaces_the_row_of_a_key(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self.keyed(tmp_path)
        if "update" not in sink.modes or not self.has_columns:
            return
        self._fitted(sink, spark, "update")

        sink.write_batch(_rows(spark, SOME), batch(0, mode="update"))
        sink.write_batch(_rows(spark, [(2, "bea", 9.0), (4, "eve", 0.0)]), batch(1, mode="update"))
        sink.write_batch(_rows(spark, [(2, "bea", 9.0), (4, "eve", 0.0)]), batch(1, mode="update"))

        assert self._found(sink) == [SOME[0], (2, "bea", 9.0), SOME[2], (4, "eve", 0.0)]

    def test_mode_complete_replaces_everything(self, spark: SparkSession, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        if "complete" not in sink.modes or not self.has_columns:
            return
        self._fitted(sink, spark, "complete")

        sink.write_batch(_rows(spark, SOME), batch(0, mode="complete"))
        sink.write_batch(_rows(spark, MORE), batch(1, mode="complete"))
        sink.write_batch(_rows(spark, MORE), batch(1, mode="complete"))

        assert self._found(sink) == MORE

    @pytest.mark.parametrize(
        ("schema", "named"),
        [
            ("id int, name string", "amount"),
            ("id int, name string, amount double, more int", "more"),
            ("id int, name string, amount string", "amount"),
            ("id string, name string, amount double", "id"),
        ],
        ids=["missing", "extra", "mistyped", "mistyped key"],
    )
    def test_columns_that_do_not_fit_are_named(
        self, spark: SparkSession, tmp_path: Path, schema: str, named: str
    ) -> None:
        sink = self._fitted(self.sink(tmp_path), spark)
        other = spark.createDataFrame([], schema).schema

        if not self.has_columns:
            sink.fit(spark, other, "append")
            return
        with pytest.raises(PenstockError, match=rf"(?i)\b{named}\b"):
            sink.fit(spark, other, "append")

    def test_options_are_strict(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)
        given = {**_given(sink), "no_such_option": 1}

        with pytest.raises(ValidationError, match="no_such_option"):
            type(sink).model_validate(given)
        with pytest.raises(ValidationError, match="frozen"):
            sink.options = {}  # type: ignore[misc]

    def test_what_it_promises_is_said(self, tmp_path: Path) -> None:
        sink = self.sink(tmp_path)

        assert sink.promise.startswith(_PROMISES)
        assert (type(sink).__doc__ or "").strip()
        assert sink.modes
        assert sink.modes <= set(MODES)
        assert sink.can_share
        assert all(field.description for field in type(sink).model_fields.values())

    def _fitted(self, sink: SinkOptions, spark: SparkSession, mode: str = "append") -> SinkOptions:
        sink.fit(spark, spark.createDataFrame([], SCHEMA).schema, mode)
        return sink

    def _found(self, sink: SinkOptions) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in self.written(sink)), key=lambda row: row[0])

    def _check_once(self, sink: SinkOptions, rows: Sequence[Row]) -> None:
        found = self._found(sink)
        if sink.promise.startswith("exactly-once"):
            assert found == list(rows)
        else:
            assert set(found) == set(rows)

    def _copy(self, sink: SinkOptions) -> SinkOptions:
        return type(sink).model_validate(_given(sink))


def _given(sink: SinkOptions) -> dict[str, Any]:
    return sink.model_dump(by_alias=True, exclude_unset=True)


def _rows(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    return spark.createDataFrame(list(rows), SCHEMA)


def _failing(spark: SparkSession) -> DataFrame:
    text = "SELECT id, CAST(raise_error('on purpose') AS STRING) AS name, 0D AS amount FROM VALUES (99) AS t(id)"
    return spark.sql(text)
