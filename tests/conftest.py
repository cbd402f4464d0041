"""One Spark session for every test that needs one, and a folder with a pipeline as a user has it."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine import Queries
    from penstock.model import Pipeline
    from penstock.watch.snapshot import Snapshot


#: Real brokers and stores, for whichever folder asks for them: each is started once.
pytest_plugins = ["tests.services.fixtures"]


# The optimizing compiler does not pay for itself in runs of seconds: 40 % less work for every JVM that a test starts.
# Without a size of its own the cache for code is small, and once it is full everything is interpreted.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")

#: What takes long goes first, so that two processes are done at about the same time; what leaves an event loop running
#: in its process goes last.
_ORDER = ("docs", "faults", "services", "crash", "agreement", "spark", "unit", "browser")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the folders; files stay whole."""
    here = Path(__file__).parent
    items.sort(key=lambda item: _ORDER.index(item.path.relative_to(here).parts[0]))


@pytest.fixture(autouse=True)
def no_secrets_of_other_tests() -> Iterator[None]:
    """What one test kept secret is plain text to the next."""
    yield
    from penstock.redaction import forget

    forget()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session: two threads, one shuffle partition, every connector's jars."""
    from penstock import jars
    from penstock.engine import session
    from penstock.testing.spark import settings_of

    groups = ["kafka", "avro", "delta", "cassandra", "postgresql", "sqlite"]
    asked = {
        # One partition: a test has a handful of rows, and empty tasks cost seconds.
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "1g",
        **settings_of(groups),
        "spark.databricks.delta.snapshotPartitions": "1",
        # Nobody opens Spark's own pages: what they would show of thousands of queries fills the heap.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.ui.retainedExecutions": "10",
        **{f"spark.ui.retained{name}": "10" for name in ("Jobs", "Stages", "Tasks")},
    }
    log = tmp_path_factory.mktemp("spark") / "driver.log"
    made = session("tests", master="local[2]", asked=asked, jars=jars.paths(groups), log=log)
    yield made
    made.stop()


@dataclass(frozen=True)
class Run:
    """What the queries of a pipeline reported."""

    queries: Queries

    @property
    def progress(self) -> list[dict[str, Any]]:
        """The reports so far, from the queries themselves: PySpark's listener takes longer than a small batch."""
        from penstock.spark.internals import recent_progress

        reports = (json.loads(report.json()) for query in self.queries for report in recent_progress(query))
        return sorted(reports, key=lambda report: report["timestamp"])

    @property
    def batches(self) -> list[Snapshot]:
        """The batches that read something."""
        from penstock.watch.snapshot import snapshot

        return [seen for seen in map(snapshot, self.progress) if seen.rows_in]

    @property
    def bad(self) -> dict[str, int]:
        """Bad records by source, over all batches."""
        found: dict[str, int] = {}
        for batch in self.batches:
            for source, count in batch.bad_records.items():
                found[source] = found.get(source, 0) + count
        return found


@dataclass(frozen=True)
class Project:
    """A folder with a pipeline's file and its data."""

    folder: Path
    spark: SparkSession

    def put(self, path: str, content: str | bytes, at: int | None = None) -> Path:
        """Write a file, with its time of change in seconds when it matters."""
        whole = self.folder / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_bytes(textwrap.dedent(content).encode() if isinstance(content, str) else content)
        if at is not None:
            os.utime(whole, (at, at))
        return whole

    def load(self, text: str, file: str = "pipeline.yaml", *, checked: bool = True) -> Pipeline:
        """The pipeline of a text that has no errors, unless Spark's own refusal is wanted, ready to start."""
        from penstock.checks import check
        from penstock.engine import prepare
        from penstock.load import load

        pipeline = load(self.put(file, text))
        if checked:
            assert [str(finding) for finding in check(pipeline) if finding.severity == "error"] == []
        return prepare(pipeline, lambda _: None, wait_seconds=10)

    def run(self, text: str, file: str = "pipeline.yaml", *, checked: bool = True) -> Run:
        """Load the pipeline and let it read what is there."""
        return self.run_once(self.load(text, file, checked=checked))

    def run_once(self, pipeline: Pipeline) -> Run:
        """Let the pipeline read what is there."""
        return self.watch(pipeline, once=True)

    def watch(self, pipeline: Pipeline, *, once: bool = False) -> Run:
        """Run the pipeline until its queries end by themselves."""
        from penstock.processes import wait_until

        with self.started(pipeline, once=once) as (queries, run):
            wait_until(lambda: not all(query.isActive for query in queries), 300)
            queries.wait()
        return run

    @contextmanager
    def started(self, pipeline: Pipeline, *, once: bool = False, **more: Any) -> Iterator[tuple[Queries, Run]]:
        """The running queries and what they report; stopped at the end."""
        from penstock.engine import start

        queries = start(pipeline, self.spark, once=once, **more)
        try:
            yield queries, Run(queries)
        finally:
            queries.stop()

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """The rows of a memory sink, sorted."""
        return sorted((tuple(row) for row in self.spark.table(table).collect()), key=repr)

    def written(self, path: str, format_: str, schema: str | None = None) -> list[tuple[Any, ...]]:
        """The rows of a files sink, sorted."""
        reader = self.spark.read.format(format_)
        reader = reader.schema(schema) if schema else reader
        return sorted((tuple(row) for row in reader.load(str(self.folder / path)).collect()), key=repr)


@pytest.fixture
def project(spark: SparkSession, tmp_path: Path) -> Project:
    """An empty folder beside the shared session."""
    return Project(tmp_path, spark)


@pytest.fixture
def refusal() -> Callable[..., str]:
    """The sentence of the error that a call raises."""

    def sentence(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
        from penstock.errors import PenstockError

        with pytest.raises(PenstockError) as caught:
            call(*arguments, **options)
        return str(caught.value)

    return sentence
