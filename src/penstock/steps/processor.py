"""Arbitrary state in Python: Spark's stateful processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from penstock.connector import StepOptions
from penstock.errors import BuildError
from penstock.imports import import_object
from penstock.options import Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_MODES = {"event": "EventTime", "processing": "ProcessingTime", "none": "None"}


class ProcessorStep(StepOptions):
    """A StatefulProcessor of Spark (transformWithState): your own state for each key, with timers and time-to-live."""

    kind: ClassVar[str] = "processor"
    runs_user_code: ClassVar[bool] = True

    class_: str = Field(alias="class", pattern=r"^[\w.]+:\w+$", description="'module:Class', beside the file.")
    source: str = Field(alias="from", description="The stream to read.")
    key: Names = Field(min_length=1, description="Columns that the state is kept by.")
    output: str = Field(min_length=1, description="Columns that it gives, as 'name type, name type'.")
    time: Literal["event", "processing", "none"] = Field(default="none", description="What its timers go by.")
    mode: Literal["append", "update"] = Field(default="append", description="The output mode of the sinks behind it.")
    event_time: str = Field(default="", description="The column of the output that carries the watermark on.")

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream that it reads."""
        return (self.source,)

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """What the processor gives for each key."""
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor

        processor = import_object(self.class_)
        if not (isinstance(processor, type) and issubclass(processor, StatefulProcessor)):
            raise BuildError(f"{self.class_} is no StatefulProcessor; derive it from pyspark.sql.streaming's")
        grouped = streams[self.source].groupBy(*self.key)
        return grouped.transformWithState(
            statefulProcessor=processor(),
            outputStructType=self.output,
            outputMode=self.mode,
            timeMode=TIME_MODES[self.time],
            eventTimeColumnName=self.event_time,
        )
