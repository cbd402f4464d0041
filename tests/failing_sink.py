"""A sink that writes through another one and fails on purpose: proves replays and supervision without patching."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, SkipValidation

from penstock.connector import Batch, SinkOptions, Writer
from penstock.model import Pipeline, Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Moment = Literal["before", "written"]
Hook = Callable[[Moment, Batch], None]
"""Called before and after each write; raises to fail the batch."""


class FailingSink(SinkOptions):
    """Calls a hook around every write of another sink."""

    kind: ClassVar[str] = "failing"
    promise: ClassVar[str] = "none: for tests"

    inner: SkipValidation[Any] = Field(description="The sink that writes.")
    hook: SkipValidation[Any] = Field(description="Called before and after each write.")

    @property
    def jar_groups(self) -> tuple[str, ...]:
        return self.inner.jar_groups

    @property
    def session(self) -> Mapping[str, str]:
        return self.inner.session

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:
        return _FailingWriter(self.inner.open(spark, schema, mode), self.hook)


@dataclass(frozen=True)
class _FailingWriter(Writer):
    inner: Writer
    hook: Hook

    def write(self, rows: DataFrame, batch: Batch) -> None:
        self.hook("before", batch)
        self.inner.write(rows, batch)
        self.hook("written", batch)

    def close(self) -> None:
        self.inner.close()


def with_hook(pipeline: Pipeline, target: str, hook: Hook) -> Pipeline:
    """The pipeline with a hook around the writes of one target."""

    def hooked(sink: Sink) -> Sink:
        targets = (
            replace(each, connector=FailingSink(inner=each.connector, hook=hook)) if each.name == target else each
            for each in sink.targets
        )
        return replace(sink, targets=tuple(targets))

    return replace(pipeline, sinks=tuple(hooked(sink) for sink in pipeline.sinks))


@dataclass
class FailOnce:
    """A hook that fails one batch, the first time that it is written."""

    batch: int
    moment: Moment
    failed: bool = False

    def __call__(self, moment: Moment, batch: Batch) -> None:
        if moment == self.moment and batch.number == self.batch and not self.failed:
            self.failed = True
            raise OSError(f"a crash: {moment}")
