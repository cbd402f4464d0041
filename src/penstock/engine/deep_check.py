"""Checks a pipeline with Spark before it runs: every refusal at once, without reaching outside systems.

sources   empty frames of the columns that are declared, or that the connector is known to give
steps     built as for a run, each with its own error
sinks     Spark's streaming checker, which `start()` asks first; then the columns that each target needs
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock import jars
from penstock.connectors.files import FileSource
from penstock.engine.build import PlacedError, build_step, in_order, read_source, refuse, send_python_files
from penstock.engine.prepare import absolute
from penstock.engine.targets import locate_in_target, rows_for
from penstock.errors import PenstockError
from penstock.model import Finding, Pipeline, Sink, Source, Step, Target
from penstock.options import quote
from penstock.spark import name_types
from penstock.spark.errors import summary
from penstock.spark.internals import MemoryStream, check_streaming
from penstock.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUICK_START = "-XX:TieredStopAtLevel=1"
"""Less than half the CPU time: nothing here runs long enough for the optimizing compiler."""
_CHECKER_OFF = "spark.sql.streaming.unsupportedOperationCheck"


def check_with_spark(pipeline: Pipeline) -> list[Finding]:
    """Everything that Spark refuses in a pipeline, in file order; starts a session but no query."""
    with tempfile.TemporaryDirectory(prefix="penstock-check-") as folder, _session(pipeline, Path(folder)) as spark:
        return check_in(spark, pipeline, Path(folder))


def check_in(spark: SparkSession, pipeline: Pipeline, folder: Path) -> list[Finding]:
    """The same in a session that is there; `folder` is empty."""
    check = _Check(spark, absolute(pipeline), folder)
    check.run()
    return sorted(dict.fromkeys(check.findings), key=lambda finding: finding.at)


@contextmanager
def _session(pipeline: Pipeline, folder: Path) -> Iterator[SparkSession]:
    """A small local session with the file's settings; only Avro needs a jar, and a master is not asked."""
    asked = {key: value for key, value in pipeline.spark.items() if key not in ("master", "spark.master")}
    asked[_JAVA_OPTIONS] = " ".join(filter(None, [asked.get(_JAVA_OPTIONS), _QUICK_START]))
    groups = [group for group in pipeline.jar_groups if group == "avro"]
    spark = session(pipeline.name, master="local[1]", asked=asked, jars=jars.paths(groups), log=folder / "check.log")
    try:
        yield spark
    finally:
        spark.stop()


@dataclass
class _Check:
    spark: SparkSession
    pipeline: Pipeline
    folder: Path
    findings: list[Finding] = field(default_factory=list)
    streams: dict[str, DataFrame] = field(default_factory=dict)

    def run(self) -> None:
        send_python_files(self.pipeline, self.spark)
        for source in self.pipeline.sources:
            self._source(source)
        for step in in_order(self.pipeline):
            self._step(step)
        for sink in self.pipeline.sinks:
            if sink.reads in self.streams:
                self._streaming(sink)
                self._targets(sink)

    def _source(self, source: Source) -> None:
        try:
            self.streams[source.name] = read_source(self.pipeline, source, self.spark, self._empty)
        except _UnknownColumnsError as error:
            says = f"source {source.name!r}: {error}, so what reads it was not checked with Spark"
            fix = "test it with 'penstock test', or start it"
            self.findings.append(Finding("columns-are-known", source.at, says, fix, severity="warning"))
        except PenstockError as error:
            self._note(source, error)

    def _step(self, step: Step) -> None:
        if not all(name in self.streams for name in step.reads):
            # What it reads already has a finding.
            return
        try:
            self.streams[step.name] = build_step(step, self.streams, self.spark, {})
        except PenstockError as error:
            self._note(step, error)

    def _streaming(self, sink: Sink) -> None:
        """Ask Spark's streaming checker; its answer belongs to the first steps that it gives for their own rows too."""
        error = self._refusal(sink, sink.reads)
        if error is None:
            return
        names = self.pipeline.upstream(sink.reads)
        refused = {name: self._refusal(sink, name) for name in names}
        steps = [step for step in self.pipeline.steps if refused.get(step.name) is not None]
        guilty = [step for step in steps if all(refused.get(name) is None for name in step.reads)]
        if guilty:
            for step in guilty:
                self._note(step, refused[step.name], f" for sink {sink.name!r} (mode {sink.mode})")
        else:
            self._note(sink, error)

    def _refusal(self, sink: Sink, name: str) -> Exception | None:
        if not self.streams[name].isStreaming or self.spark.conf.get(_CHECKER_OFF, "true") == "false":
            return None
        trigger = sink.trigger
        try:
            check_streaming(
                self.streams[name], sink.mode, continuous=trigger.is_continuous, real_time=trigger.is_real_time
            )
        except Exception as error:
            return error
        return None

    def _targets(self, sink: Sink) -> None:
        rows = self.streams[sink.reads]
        batch = self.spark.createDataFrame([], rows.schema)
        for target in sink.targets:
            try:
                target.connector.check_columns(name_types(rows_for(target, batch).schema), sink.mode)
                if sink.native is not None:
                    sink.native.write_stream(rows)
            except Exception as error:
                self._target_refuses(sink, target, error)

    def _target_refuses(self, sink: Sink, target: Target, error: Exception) -> None:
        named = f" target {target.name!r}:" if len(sink.targets) > 1 else ""
        says = str(error) if isinstance(error, PenstockError) else summary(error)
        at = locate_in_target(target, error)
        self.findings.append(Finding("columns-fit-sink", at, f"sink {sink.name!r}:{named} {says}"))

    def _note(self, node: Source | Step | Sink, error: Exception | None, where: str = "") -> None:
        assert error is not None
        found = error if isinstance(error, PlacedError) else refuse(type(node).__name__.lower(), node, error, where)
        self.findings.append(Finding(found.rule, found.at, found.says, found.fix))

    def _empty(self, source: Source, spark: SparkSession) -> DataFrame:
        from pyspark.sql.types import StructType

        if isinstance(source.connector, FileSource):
            return self._empty_files(source, source.connector)
        ddl = source.connector.spark_columns
        if ddl is None:
            raise _UnknownColumnsError(f"only the {source.connector.kind} system itself knows the columns")
        schema: Any = StructType.fromDDL(ddl)
        return spark.createDataFrame([], schema) if source.static else MemoryStream(spark, schema).read()

    def _empty_files(self, source: Source, connector: FileSource) -> DataFrame:
        """Files have columns of Spark's own (`_metadata`), so these are real ones, of a folder without any."""
        folder = self.folder / source.name
        folder.mkdir(exist_ok=True)
        here = {"path": str(folder), "glob": None, "archive_to": str(folder.with_suffix(".archive"))}
        # Avro's reader needs a jar, and any reader with a schema returns the same columns.
        form = "parquet" if connector.format == "avro" else connector.format
        ddl = self._infer_schema(connector) if connector.infer else connector.schema_
        empty = connector.model_copy(update={**here, "format": form, "infer": False, "schema_": ddl})
        if connector.after_read != "archive":
            empty = empty.model_copy(update={"archive_to": None})
        return empty.read_static(self.spark) if source.static else empty.read(self.spark)

    def _infer_schema(self, connector: FileSource) -> str:
        try:
            return ", ".join(
                f"{quote(each.name)} {each.dataType.simpleString()}" for each in connector.infer_schema(self.spark)
            )
        except Exception as error:
            raise _UnknownColumnsError(f"its columns could not be taken from {connector.path}") from error


class _UnknownColumnsError(PenstockError):
    """The columns of a source cannot be known from here."""
