"""Columns and functions: the names in SQL are those of the tables and of Spark."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks.names_in_sql import UnknownName, unknown_functions
from penstock.checks.plan_of_pipeline import analyse
from penstock.checks.sql_text import locate_line, sql_steps
from penstock.model import Finding, Pipeline, Step
from penstock.sql import parse


def columns_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """A column that SQL names is one of the tables that it reads."""
    unknown = analyse(pipeline).unknown
    for step, text in sql_steps(pipeline):
        yield from (_finding("columns-exist", step, text, each) for each in unknown.get(step.name, ()))


def functions_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """A function that SQL calls is one of Spark's."""
    if pipeline.listeners or any(step.what.runs_user_code for step in pipeline.steps):
        # Python code may register functions of its own.
        return
    for step, text in sql_steps(pipeline):
        tree = parse(text).tree
        for each in unknown_functions(tree, text) if tree is not None else ():
            yield _finding("functions-exist", step, text, each)


def _finding(rule: str, step: Step, text: str, found: UnknownName) -> Finding:
    line = text.count("\n", 0, found.start) + 1
    return Finding(rule, locate_line(step, line), f"step {step.name!r}: {found.says}", found.fix)
