"""A SELECT that a user types while looking: one query over the pipeline's own streams, and nothing that reaches out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from penstock.checks.sql import sql_calls_no_java, sql_is_one_select, sql_reads_streams_only, sql_stays_as_written
from penstock.engine.look import ASKED, with_select
from penstock.errors import CallError
from penstock.load.sql_names import sql_names
from penstock.model import Location, Pipeline, Step
from penstock.sql import parse
from penstock.steps.sql import SqlStep
from penstock.words import did_you_mean, listed

_RULES = (sql_is_one_select, sql_calls_no_java, sql_reads_streams_only, sql_stays_as_written)
_MOST_CHARACTERS = 20_000
# They open a file by the name that they are given.
_OPENS = re.compile(r"\b(from_protobuf|to_protobuf)\b", re.IGNORECASE)


def asked(pipeline: Pipeline, text: str) -> Pipeline:
    """The pipeline with the SELECT as a step named `ASKED`; an error with everything that is wrong with it."""
    if len(text) > _MOST_CHARACTERS:
        raise CallError(f"the SELECT has {len(text):,} characters; use at most {_MOST_CHARACTERS:,}")
    reads = sql_names(text, pipeline.streams)
    step = Step(ASKED, Location("SELECT"), SqlStep(text=text or " "), reads)
    alone = replace(pipeline, steps=(step,), sinks=())
    found = [str(finding) for rule in _RULES for finding in rule(alone) if finding.severity == "error"]
    found += _more(pipeline, text, reads)
    if found:
        raise CallError("\n".join(dict.fromkeys(found)))
    return with_select(pipeline, text, reads)


def _more(pipeline: Pipeline, text: str, reads: tuple[str, ...]) -> Iterator[str]:
    parsed = parse(text)
    if parsed.problem is not None:
        yield f"SELECT:{parsed.problem.line}: it is not understood at {parsed.problem.near!r}; correct it"
    for match in _OPENS.finditer(text):
        yield f"SELECT: {match[1]!r} can open a file; take it out"
    for name in _functions(text):
        yield f"SELECT: it reads {name!r}, a function that makes rows; read {listed(pipeline.streams)}"
    for name in reads:
        if name.isidentifier() and name not in pipeline.streams:
            fix = did_you_mean(name, pipeline.streams)
            yield f"SELECT: it reads {name!r}, which is no source and no step; {fix}"


def _functions(text: str) -> Iterator[str]:
    from sqlglot import exp

    tree = parse(text).tree
    for table in tree.find_all(exp.Table) if tree is not None else ():
        if not isinstance(table.this, exp.Identifier):
            name = str(table.this.name or table.this.sql_name())
            if name.lower() not in ("stream", "table"):
                yield name.lower()
