"""From a file to rows: what `penstock preview`, `penstock sql` and the page's Explore have in common."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from penstock import jars
from penstock.checks import check
from penstock.checks.sql import (
    sql_calls_no_java,
    sql_comments_are_plain,
    sql_is_one_select,
    sql_reads_streams_only,
    sql_stays_as_written,
)
from penstock.engine.prepare import prepare
from penstock.errors import CallError, CheckError
from penstock.load import load
from penstock.load.text_map import PlainText
from penstock.model import Location, Pipeline, Step, errors
from penstock.preview.query import SELECT_NAME, Limits, Preview, find_stream, preview, subgraph
from penstock.preview.sql_policy import TABLE_FUNCTIONS, refusals
from penstock.spark.errors import summary
from penstock.spark.internals import parse_plan, to_dataframe
from penstock.spark.session import session
from penstock.sql import find_table_names, parse
from penstock.steps.sql import SqlStep
from penstock.text import did_you_mean, join_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RULES = (
    sql_is_one_select,
    sql_calls_no_java,
    sql_reads_streams_only,
    sql_stays_as_written,
    sql_comments_are_plain,
)
_MOST_CHARACTERS = 20_000
# Spark's parser goes deeper with every bracket, and its stack has an end.
_MOST_DEPTH = 200
# They open a file or URL that an option names.
_OPENS = frozenset({"from_protobuf", "to_protobuf", "from_avro", "from_xml", "schema_of_xml"})


class OutsideSelect(SqlStep):
    """A SELECT of someone who may not run everything that a pipeline file may."""

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:
        """The rows of exactly the tree that was judged."""
        from pyspark.errors import ParseException

        try:
            plan = parse_plan(spark, self.text)
        except ParseException as error:
            raise CallError(f"SELECT: {summary(error)}; correct it") from error
        reasons = refusals(plan, streams)
        if reasons:
            raise CallError("\n".join(f"SELECT: {reason}" for reason in reasons))
        for name, rows in streams.items():
            rows.createOrReplaceTempView(name)
        return to_dataframe(spark, plan)


def with_select(pipeline: Pipeline, text: str) -> Pipeline:
    """The pipeline with the SELECT as a step named `ASKED`; an error with everything that is wrong with it."""
    if len(text) > _MOST_CHARACTERS:
        raise CallError(f"the SELECT has {len(text):,} characters; use at most {_MOST_CHARACTERS:,}")
    reads = find_table_names(text, {name.lower(): name for name in pipeline.streams})
    start = Location("SELECT")
    step = Step(SELECT_NAME, start, OutsideSelect(text=text or " "), reads, PlainText(start, text))
    alone = replace(pipeline, steps=(step,), sinks=())
    found = [str(error) for rule in _RULES for error in errors(rule(alone))]
    found += _more(pipeline, text, reads)
    if found:
        raise CallError("\n".join(dict.fromkeys(found)))
    return replace(pipeline, steps=(*pipeline.steps, replace(step, at=pipeline.at, text_at=None)))


def _more(pipeline: Pipeline, text: str, reads: tuple[str, ...]) -> Iterator[str]:
    parsed, text_at = parse(text), PlainText(Location("SELECT"), text)
    if parsed.problem is not None and parsed.problem.is_sure:
        yield f"{text_at.locate(parsed.problem.start)}: it is not understood at {parsed.problem.near!r}; correct it"
    if _depth(text) > _MOST_DEPTH:
        yield f"SELECT: brackets are nested more than {_MOST_DEPTH} deep; use fewer"
    for first, second in pairwise(parsed.tokens):
        if second.text == "(" and first.name.lower() in _OPENS:
            yield f"{text_at.locate(first.start)}: {first.name!r} can open a file; take it out"
    for name in _functions(text):
        yield f"SELECT: it reads {name!r}, a function that makes rows; read {join_words(pipeline.streams)}"
    if not reads:
        yield f"SELECT: it reads neither a source nor a step; read {join_words(pipeline.streams)}"
    for name in reads:
        if name.isidentifier() and name not in pipeline.streams:
            fix = did_you_mean(name, pipeline.streams)
            yield f"SELECT: it reads {name!r}, which is neither a source nor a step; {fix}"


def _depth(text: str) -> int:
    depth = deepest = 0
    for token in parse(text).tokens:
        depth += (token.text in ("(", "[", "<")) - (token.text in (")", "]", ">"))
        deepest = max(deepest, depth)
    return deepest


def _functions(text: str) -> Iterator[str]:
    from sqlglot import exp

    tree = parse(text).tree
    for table in tree.find_all(exp.Table) if tree is not None else ():
        if not isinstance(table.this, exp.Identifier):
            name = str(table.this.name or table.this.sql_name()).lower()
            if name not in ("stream", "table", *TABLE_FUNCTIONS):
                yield name


_SETTINGS = {
    # Quick to start and small: a preview must not take from the pipeline that runs meanwhile.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.sql.shuffle.partitions": "1",
    # A SELECT from outside may not name files as tables; here Spark itself would not open one either.
    "spark.sql.runSQLOnFiles": "false",
    "spark.driver.memory": "1g",
}
_MASTER = "local[2]"


@dataclass(frozen=True)
class PreviewRequest:
    """What to show."""

    file: str
    step: str | None = None
    sql: str = ""
    start: Literal["latest", "earliest"] = "latest"
    bad: bool = False
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class ResolvedPreview:
    """The part of a pipeline that is needed, and the stream that is shown."""

    pipeline: Pipeline
    name: str


def resolve(wanted: PreviewRequest) -> ResolvedPreview:
    """Find what a request means, and check it; needs no Spark."""
    pipeline = load(wanted.file)
    if wanted.sql:
        pipeline, name = with_select(pipeline, wanted.sql), SELECT_NAME
    else:
        name = find_stream(pipeline, wanted.step)
    needed = subgraph(pipeline, name, wanted.start, wanted.limits)
    if wrong := errors(check(needed)):
        raise CheckError(wrong)
    return ResolvedPreview(needed, name)


@contextmanager
def open_preview(
    wanted: PreviewRequest, print_status: Callable[[str], None], enough: Callable[[], bool] = lambda: False
) -> Iterator[Preview]:
    """The rows of a request, in a separate Spark that ends with them."""
    ready = resolve(wanted)
    prepared = prepare(ready.pipeline, print_status)
    with tempfile.TemporaryDirectory(prefix="penstock-preview-") as folder:
        spark = _session(prepared, Path(folder, "driver.log"))
        try:
            with preview(prepared, spark, ready.name, wanted.limits, bad=wanted.bad, enough=enough) as found:
                yield found
        finally:
            spark.stop()


def messages(preview: Preview) -> Iterator[dict[str, Any]]:
    """A preview as JSON messages: the columns, rows as they arrive, and why they ended."""
    columns = [{"name": name, "type": kind} for name, kind in preview.columns]
    yield {"what": "columns", "columns": columns, "mode": preview.mode}
    for batch in preview.rows:
        yield {
            "what": "rows",
            "batch": batch.batch,
            "rows": batch.rows,
            "replaces": batch.replaces,
            "left_out": batch.left_out,
        }
    yield {"what": "end", "why": preview.why()}


def _session(pipeline: Pipeline, log: Path) -> SparkSession:
    settings = {key: value for key, value in pipeline.session_settings.items() if not key.startswith("spark.driver.")}
    return session(
        f"preview of {pipeline.name}",
        master=_MASTER,
        asked={**_SETTINGS, **settings},
        jars=jars.paths(pipeline.jar_groups),
        log=log,
    )
