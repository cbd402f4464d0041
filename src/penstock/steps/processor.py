"""Arbitrary state in Python: Spark's stateful processors."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from penstock.connector import Call, StepOptions, UserCode
from penstock.errors import BuildError
from penstock.imports import import_object
from penstock.options import Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TIME_MODES = {"event": "EventTime", "processing": "ProcessingTime", "none": "None"}
_METHODS = {
    "init": Call(("handle",)),
    "handleInputRows": Call(("key", "rows", "timerValues")),
    "handleExpiredTimer": Call(("key", "timerValues", "expiredTimerInfo"), by_name=True),
    "close": Call(),
}


class ProcessorStep(StepOptions):
    """A StatefulProcessor of Spark (transformWithState): your own state for each key, with timers and time-to-live."""

    kind: ClassVar[str] = "processor"
    runs_user_code: ClassVar[bool] = True

    class_: str = Field(alias="class", pattern=r"^[\w.]+:\w+$", description="'module:Class', next to the file.")
    source: str = Field(alias="from", description="The stream to read.")
    key: Names = Field(min_length=1, description="Columns that the state is kept by.")
    output: str = Field(min_length=1, description="Columns that it returns, as 'name type, name type'.")
    time: Literal["event", "processing", "none"] = Field(default="none", description="The time of its timers.")
    mode: Literal["append", "update"] = Field(
        default="append", description="The output mode of the sinks that read it."
    )
    event_time: str = Field(default="", description="The output column that carries the watermark.")

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream that it reads."""
        return (self.source,)

    @property
    def user_code(self) -> tuple[UserCode, ...]:
        """The class; Spark calls its methods."""
        inherited = frozenset({"handleExpiredTimer", "close"})
        base = "StatefulProcessor"
        return (UserCode("class", self.class_, methods=_METHODS, base=base, inherited=inherited, is_class=True),)

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The rows that the processor returns."""
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor

        processor = import_object(self.class_)
        if not (isinstance(processor, type) and issubclass(processor, StatefulProcessor)):
            raise BuildError(
                f"{self.class_} is not a StatefulProcessor; derive it from the one of pyspark.sql.streaming"
            )
        grouped = streams[self.source].groupBy(*self.key)
        return grouped.transformWithState(
            statefulProcessor=processor(),
            outputStructType=self.output,
            outputMode=self.mode,
            timeMode=TIME_MODES[self.time],
            eventTimeColumnName=self.event_time,
        )
