"""A SELECT that a user types into Explore or gives to `penstock sql`: one query over the pipeline's own streams.

It is judged twice. Here, without Spark, so that a misspelled name is answered at once; and, for certain, on the tree
that Spark's parser makes of it, which is then the tree that runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from penstock.checks.sql import (
    sql_calls_no_java,
    sql_comments_are_plain,
    sql_is_one_select,
    sql_reads_streams_only,
    sql_stays_as_written,
)
from penstock.errors import CallError
from penstock.load.sql_names import find_table_names
from penstock.load.text_map import PlainText
from penstock.model import Location, Pipeline, Step, errors
from penstock.preview.query import SELECT_NAME
from penstock.preview.sql_policy import TABLE_FUNCTIONS, refusals
from penstock.spark.errors import summary
from penstock.spark.internals import parse_plan, to_dataframe
from penstock.sql import parse
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
