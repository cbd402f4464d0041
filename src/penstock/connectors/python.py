"""User functions and classes that take batches or rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from penstock.connector import Batch, Call, SinkOptions, UserCode, Writer
from penstock.errors import BuildError
from penstock.imports import import_object
from penstock.spark import name_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_PATH = r"^[\w.]+:\w+$"


class ForeachBatchSink(SinkOptions):
    """Calls a function with every batch and its number; the ledger skips batches that it has returned from."""

    kind: ClassVar[str] = "foreach_batch"
    runs_user_code: ClassVar[bool] = True
    promise: ClassVar[str] = (
        "exactly-once if the function can be called twice with the same batch; otherwise at-least-once"
    )

    python: str = Field(pattern=_PATH, description="'module:function', called with (DataFrame, batch number).")

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The function."""
        return (UserCode("python", self.python, Call(("rows", "batch_number"))),)

    def on_replay(self, mode: str) -> str:  # noqa: ARG002
        """Called again."""
        return "calls the function with the rows again, with batch numbers from 0"

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:  # noqa: ARG002
        """The function can be imported."""
        if not callable(import_object(self.python)):
            raise BuildError(f"{self.python} is not a function; it is called with a DataFrame and a batch number")

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:  # noqa: ARG002
        """Import the function."""
        self.check_columns(name_types(schema), mode)
        return _BatchFunction(import_object(self.python))


@dataclass(frozen=True)
class _BatchFunction(Writer):
    function: Callable[[DataFrame, int], None]

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Call the function."""
        self.function(rows, batch.number)


class ForeachSink(SinkOptions):
    """Calls `process` of a class with every row, between `open` and `close` of each partition, like Spark's foreach."""

    kind: ClassVar[str] = "foreach"
    runs_user_code: ClassVar[bool] = True
    promise: ClassVar[str] = "at-least-once: rows of a batch that failed half-way are processed again"

    python: str = Field(
        pattern=_PATH,
        description="'module:Class' with process(row); open(partition, batch) and close(error) if wanted.",
    )

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The class; an object of it is created for each partition."""
        methods = {"process": Call(("row",)), "open": Call(("partition", "batch_number")), "close": Call(("error",))}
        optional = frozenset({"open", "close"})
        return (UserCode("python", self.python, methods=methods, optional=optional, is_class=True),)

    def on_replay(self, mode: str) -> str:  # noqa: ARG002
        """Processed again."""
        return "processes the rows again, with batch numbers from 0"

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:  # noqa: ARG002
        """The class can be imported and has `process`."""
        if not callable(getattr(import_object(self.python), "process", None)):
            raise BuildError(f"{self.python} has no method 'process'; it is called with every row")

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:  # noqa: ARG002
        """Import the class."""
        self.check_columns(name_types(schema), mode)
        return _RowProcessor(import_object(self.python))


@dataclass(frozen=True)
class _RowProcessor(Writer):
    factory: Callable[[], Any]

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Process every row, on the executors."""
        factory, number = self.factory, batch.number

        def process(partition: Any) -> None:
            from pyspark import TaskContext

            context = TaskContext.get()
            _process(factory(), partition, context.partitionId() if context else 0, number)

        rows.foreachPartition(process)


def _process(writer: Any, rows: Any, partition: int, number: int) -> None:
    """The lifecycle of Spark's own foreach writer: `open` returns False if the partition is done already."""
    if hasattr(writer, "open") and not writer.open(partition, number):
        return
    failure: Exception | None = None
    try:
        for row in rows:
            writer.process(row)
    except Exception as error:
        failure = error
        raise
    finally:
        if hasattr(writer, "close"):
            writer.close(failure)
