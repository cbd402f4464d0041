"""Runs generated pipelines in Spark until each sink has done a batch, and compares that with `penstock check`.

python -m tests.agreement.running [--count N] [--seed S] [--run R] [--out FILE]
python -m tests.agreement.running --only SEED SEED ...      these pipelines, by the seeds that a summary shows

Of N generated pipelines R are run, chosen so that every trigger, mode, step and rule is among them. Each source has a
few rows: files in a folder, records in a real broker. Each sink is started alone, with the engine's own `start`:

micro-batches   until what is there is read, no-data batches included
rate sources    until the first batch that reads a row, because rows keep coming
continuous      until an epoch is committed that has read a row
real-time       until the first batch that reads a row is done
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.agreement.compare import Comparison, ask_check, reason, summarize

from penstock import jars
from penstock.connectors.files import FileSource
from penstock.connectors.kafka import KafkaSink, KafkaSource, create_topics
from penstock.connectors.python import ForeachBatchSink
from penstock.connectors.rate import RateSource
from penstock.engine import prepare, start
from penstock.load import load
from penstock.model import Pipeline, Sink, Source, Target
from penstock.services import KafkaBroker
from penstock.spark.internals import has_batches, recent_progress, to_list
from penstock.storage.layout import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.engine import Queries

STREAMS = ("orders", "events", "clicks", "readings")
TABLE = "names"
#: A batch takes a second or two, a real-time one as long as its trigger.
_MOST_SECONDS = 60.0
_NO_BATCH = f"no batch with rows within {_MOST_SECONDS:.0f} seconds"
#: What the summary counts.
_SHOWN = ("trigger:", "mode:", "sink:", "source:", "sql:", "step:", "table", "mistake")


def records() -> list[dict[str, Any]]:
    """Rows with every column that a generated source declares, over two hours, so that watermarks pass windows.

    Text is made of digits: SQL compares it with numbers, and a cast that fails is the fault of the row.
    """
    times = [f"2024-05-01 {10 + minutes // 60}:{minutes % 60:02}:00" for minutes in (0, 1, 2, 61, 62, 120)]
    return [
        {
            "id": number,
            **dict.fromkeys(("at", "happened", "since"), at),
            **dict.fromkeys(("kind", "name"), str(number % 2)),
            "amount": 10 * number,
            "score": number / 2,
            "tags": ["a", "b"],
            "detail": {"code": 7, "name": "a"},
        }
        for number, at in enumerate(times, 1)
    ]


@dataclass(frozen=True)
class Inputs:
    """The rows of all sources, as files and as records of topics: they are the same for every pipeline."""

    folder: Path
    servers: str
    prefix: str

    @classmethod
    def write(cls, folder: Path, servers: str) -> Inputs:
        """Write the files and the records."""
        from confluent_kafka import Producer

        lines = [json.dumps(record) for record in records()]
        for name in (*STREAMS, TABLE):
            (folder / name).mkdir(parents=True)
            (folder / name / "rows.json").write_text("".join(f"{line}\n" for line in lines))
        inputs = cls(folder, servers, f"agreement-{uuid.uuid4().hex[:8]}-")
        topics = [f"{inputs.prefix}{name}" for name in STREAMS]
        # One partition: a task that waits for records takes a thread of Spark for itself.
        create_topics(servers, tuple(topics), 1)
        producer = Producer({"bootstrap.servers": servers})
        for topic in topics:
            for line in lines:
                producer.produce(topic, line.encode())
        left = producer.flush(30)
        assert left == 0, f"the broker did not take {left} records"
        return inputs

    def connect(self, pipeline: Pipeline) -> Pipeline:
        """The pipeline with sources that read these rows, and sinks that can be written."""
        return replace(
            pipeline,
            sources=tuple(self._source(source) for source in pipeline.sources),
            sinks=tuple(
                replace(sink, targets=tuple(self._target(target) for target in sink.targets)) for sink in pipeline.sinks
            ),
        )

    def _source(self, source: Source) -> Source:
        connector = source.connector
        if isinstance(connector, FileSource):
            return replace(source, connector=connector.model_copy(update={"path": str(self.folder / source.name)}))
        if isinstance(connector, KafkaSource):
            topics = tuple(f"{self.prefix}{topic}" for topic in connector.topics)
            here = {"servers": self.servers, "topics": topics, "start": "earliest"}
            return replace(source, connector=connector.model_copy(update=here))
        return source

    def _target(self, target: Target) -> Target:
        connector = target.connector
        if isinstance(connector, KafkaSink):
            topic = f"{self.prefix}{uuid.uuid4().hex[:12]}"
            create_topics(self.servers, (topic,), 1)
            return replace(target, connector=connector.model_copy(update={"servers": self.servers, "topic": topic}))
        if isinstance(connector, ForeachBatchSink):
            return replace(target, connector=connector.model_copy(update={"python": f"{__spec__.name}:read_batch"}))
        return target


def read_batch(rows: DataFrame, _number: int) -> None:
    """The function of foreach_batch sinks: computes every row."""
    rows.collect()


def run_pipeline(spark: SparkSession, pipeline: Pipeline, inputs: Inputs, folder: Path) -> str:
    """The first error of the sinks, run one after the other; empty if each has done its batch."""
    try:
        ready = prepare(inputs.connect(pipeline), lambda _: None, wait_seconds=10)
        for sink in ready.sinks:
            _run_sink(spark.newSession(), replace(ready, sinks=(sink,)), sink, Storage(str(folder / sink.name / "run")))
    except Exception as error:
        # Of any kind: what it says is the result.
        return _first_line(error)
    finally:
        spark.catalog.clearCache()
    return ""


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def _run_sink(spark: SparkSession, pipeline: Pipeline, sink: Sink, storage: Storage) -> None:
    """Start the query and wait for its batch; raises why it failed."""
    read = pipeline.upstream(sink.reads)
    has_rate = any(isinstance(each.connector, RateSource) for each in pipeline.sources if each.name in read)
    once = sink.trigger.has_micro_batches and not sink.trigger.ends and not has_rate
    queries = start(pipeline, spark, once=once, storage=storage)
    try:
        _wait(queries, ends=once or sink.trigger.ends)
    finally:
        queries.stop()


def _wait(queries: Queries, *, ends: bool) -> None:
    deadline = time.monotonic() + _MOST_SECONDS

    def have_rows() -> bool:
        return not ends and all(map(_has_read_rows, queries))

    queries.wait(lambda: have_rows() or time.monotonic() > deadline)
    if not queries.have_ended and not have_rows():
        raise TimeoutError(_NO_BATCH)


def _has_read_rows(query: StreamingQuery) -> bool:
    """Whether a batch, or an epoch of the continuous engine, has read rows and is done."""
    if has_batches(query):
        reports = [json.loads(report.json()) for report in recent_progress(query)]
        return any(report["numInputRows"] > 0 for report in reports)
    return any(map(_is_beyond_start, _committed_offsets(query)))


def _committed_offsets(query: StreamingQuery) -> list[Any]:
    """Where the last committed epoch ends, for each source: the continuous engine reports no progress."""
    execution = query._jsq.streamingQuery()  # type: ignore[attr-defined]
    last = execution.commitLog().getLatestBatchId()
    ends = execution.offsetLog().get(last.get()) if last.isDefined() else None
    if ends is None or not ends.isDefined():
        return []
    return [json.loads(offset.get().json()) for offset in to_list(ends.get().offsets()) if offset.isDefined()]


def _is_beyond_start(offset: dict[str, Any]) -> bool:
    """Kafka has {topic: {partition: next}}, the rate source {partition: {value: last, ...}}."""
    return any(each["value"] >= 0 if "value" in each else max(each.values()) > 0 for each in offset.values())


# The choice of pipelines


def features(asked: Comparison) -> set[str]:
    """What a pipeline has, by which pipelines are chosen: its parts with the verdict of `check`, and the rules."""
    verdict = "refused" if asked.error_rules else "accepted"
    parts = {f"{verdict} {_shorten(part)}" for part in asked.parts}
    # Most of them do not fit a continuous or real-time query: of those that do, each turn takes several.
    are_fast = [
        part for part in parts if part.startswith(("accepted trigger:continuous", "accepted trigger:real-time"))
    ]
    fast = {f"{part}, place {place}" for part in are_fast for place in range(8)}
    return parts | fast | {f"rule:{rule}" for rule in asked.error_rules}


def _shorten(part: str) -> str:
    """`sql:join-left-stream-table-equal` as `sql:join-left`, and other SQL by its first word."""
    kind, _, label = part.partition(":")
    words = label.split("-")
    return f"{kind}:{'-'.join(words[: 2 if words[0] == 'join' else 1])}" if kind == "sql" else part


def choose(asked: Iterable[Comparison], count: int) -> list[Comparison]:
    """So many pipelines, one for each feature in turn, the rarest features first."""
    groups: dict[str, list[Comparison]] = defaultdict(list)
    for each in asked:
        for name in sorted(features(each)):
            groups[name].append(each)
    waiting = [iter(group) for _, group in sorted(groups.items(), key=lambda item: (len(item[1]), item[0]))]
    chosen: dict[str, Comparison] = {}
    while waiting and len(chosen) < count:
        for group in list(waiting):
            found = next((each for each in group if each.seed not in chosen), None)
            if found is None:
                waiting.remove(group)
            elif len(chosen) < count:
                chosen[found.seed] = found
    return list(chosen.values())


def generate_many(count: int, seed: str, folder: Path) -> list[Comparison]:
    """What `check` says about so many generated pipelines; those that cannot be loaded are left out."""
    asked = [ask_check(f"{seed}-{number}", folder) for number in range(count)]
    return [each for each, pipeline in asked if pipeline is not None]


def compare_run(spark: SparkSession, asked: Comparison, inputs: Inputs, folder: Path) -> Comparison:
    """Run one pipeline; `folder` is empty."""
    file = folder / "pipeline.yaml"
    file.write_text(asked.text)
    return replace(asked, spark=run_pipeline(spark, load(file), inputs, folder), has_run=True)


# The command


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    service = KafkaBroker(folder, jars.fetch([KafkaBroker.jars]))
    address = service.start(lambda _: None)
    try:
        yield address
    finally:
        service.stop()


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    from penstock.spark.session import session
    from penstock.testing.spark import settings_of

    groups = ["kafka", "delta"]
    asked = {
        **settings_of(groups),
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.stateStore.maintenanceInterval": "10m",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }
    with _stdout_to(folder / "console.txt"):
        spark = session("agreement", master="local[2]", asked=asked, jars=jars.fetch(groups), log=folder / "spark.log")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stdout_to(file: Path) -> Iterator[None]:
    """Start the JVM with another standard output: console sinks print there."""
    sys.stdout.flush()
    kept = os.dup(1)
    with file.open("ab") as opened:
        os.dup2(opened.fileno(), 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def run(asked: list[Comparison], folder: Path, out: Path | None) -> Iterator[Comparison]:
    """Run pipelines in one session; each is written as a line of JSON."""
    began = time.monotonic()
    (folder / "kafka").mkdir()
    with _broker(folder / "kafka") as servers, _session(folder) as spark:
        inputs = Inputs.write(folder / "in", servers)
        for number, each in enumerate(asked, 1):
            place = folder / str(number)
            place.mkdir()
            done = compare_run(spark, each, inputs, place)
            if out:
                with out.open("a") as lines:
                    print(json.dumps({"outcome": done.outcome, **asdict(done)}), file=lines)
            if number % 20 == 0:
                print(f"{number} of {len(asked)}, {time.monotonic() - began:.0f} seconds", flush=True)
            yield done


def summarize_runs(done: list[Comparison]) -> Iterator[str]:
    """What was run, counts of outcomes, and every difference."""
    ran = Counter(_shorten(part) for each in done if not each.spark for part in set(each.parts))
    failed = Counter(_shorten(part) for each in done if each.spark for part in set(each.parts))
    yield "  ran failed"
    for name in sorted(part for part in ran | failed if part.startswith(_SHOWN)):
        yield f"{ran[name]:5} {failed[name]:6} {name}"
    yield from summarize(done)
    for each in done:
        if each.outcome in ("false accept", "false alarm"):
            says = each.spark or "; ".join(each.messages)
            text = "".join(f"    {line}\n" for line in each.text.splitlines())
            yield f"\n{each.outcome}, seed {each.seed}: {reason(says)}\n  {says}\n{text}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--run", type=int, default=200)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="SEED")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agreement-running-") as name:
        if arguments.only:
            asked = [ask_check(seed, Path(name))[0] for seed in arguments.only]
        else:
            asked = choose(generate_many(arguments.count, arguments.seed, Path(name)), arguments.run)
        done = list(run(asked, Path(name), arguments.out))
    for line in summarize_runs(done):
        print(line)


if __name__ == "__main__":
    main()
