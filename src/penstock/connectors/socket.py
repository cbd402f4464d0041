"""Lines of text from a TCP server."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from penstock.connector import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SocketSource(SourceOptions):
    """Lines of a TCP server, one row each; for experiments: what was read is lost in a crash."""

    kind: ClassVar[str] = "socket"
    replayable: ClassVar[bool] = False
    value_column: ClassVar[str | None] = "value"
    promise: ClassVar[str] = "not replayable: lines that were read and not yet written are lost in a crash"

    host: str = Field(default="127.0.0.1", description="Where the server listens.")
    port: int = Field(ge=1, le=65535, description="Its port.")
    timestamps: bool = Field(default=False, description="Add a column `timestamp`: when the line was read.")

    def explain(self, failure: str) -> str | None:
        """Nothing listens there; not probed before the start, which would use up the one connection of `nc -l`."""
        if "ConnectException" not in failure and "Connection refused" not in failure:
            return None
        fix = f"start the server first (for example: nc -lk {self.port}) or correct host and port"
        return f"nothing listens at {self.host}:{self.port}; {fix}"

    @property
    def on_reset(self) -> str:
        """It has no past."""
        return "is read from then on: what was read before does not come again"

    @property
    def spark_columns(self) -> str:
        """Column value, and timestamp if enabled."""
        return "value string, timestamp timestamp" if self.timestamps else "value string"

    def read(self, spark: SparkSession) -> DataFrame:
        """Column value, and timestamp if enabled."""
        options: dict[str, int | str] = {
            "host": self.host,
            "port": self.port,
            "includeTimestamp": str(self.timestamps).lower(),
        }
        return spark.readStream.format("socket").options(**options).options(**self.spark_options).load()
