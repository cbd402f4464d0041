"""SQL steps: one SELECT over the pipeline's own streams, and nothing that reaches out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from penstock.checks.texts import in_text, is_plain, sql_steps
from penstock.model import Finding, Pipeline, Step
from penstock.sql import parse

_GAP = r"`?\s*(?:(?:/\*.*?\*/|--[^\n]*\n)\s*)*"
# Looked for in the text itself, not in what sqlglot makes of it: Spark's own reading is what counts.
_JAVA = re.compile(rf"\b(try_reflect|reflect|java_method|identifier){_GAP}\(", re.IGNORECASE | re.DOTALL)
_SCRIPT = re.compile(r"\b(transform|map|reduce)\b[^;]*?\busing\s*[rR]?['\"]", re.IGNORECASE | re.DOTALL)
_FILE = re.compile(rf"\b\w+{_GAP}\.\s*(`[^`]*[/:\\][^`]*`)", re.DOTALL)
_WHY = {
    "identifier": "it can name any table or function",
}


def sql_is_one_select(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step is one SELECT, and changes nothing."""
    for step, text in sql_steps(pipeline):
        parsed = parse(text)
        second = parsed.second_statement
        if not parsed.tokens:
            if parsed.problem is None:
                yield _finding("sql-is-one-select", step, 1, f"step {step.name!r} has no SQL in it", "write a SELECT")
        elif not parsed.is_query:
            says = f"step {step.name!r} starts with {parsed.first!r}, and a step is one SELECT"
            yield _finding("sql-is-one-select", step, parsed.tokens[0].line, says, "take the statement out")
        elif second is not None:
            says = f"step {step.name!r} has a second statement, starting with {second.text!r}"
            yield _finding("sql-is-one-select", step, second.line, says, "make it a step of its own")
        elif parsed.tree is not None and not _is_query(parsed.tree):
            says = f"step {step.name!r} writes, and a step is one SELECT"
            yield _finding("sql-is-one-select", step, 1, says, "let a sink do the writing")


def sql_calls_no_java(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step runs no Java method and no program."""
    for step, text in sql_steps(pipeline):
        for match in _JAVA.finditer(text):
            why = _WHY.get(match[1].lower(), "it can call any Java method")
            says = f"step {step.name!r} uses {match[1]!r}; {why}"
            yield _finding("sql-calls-no-java", step, _line(text, match), says, "take it out")
        script = _SCRIPT.search(text)
        if script is not None:
            says = f"step {step.name!r} hands rows to a program with 'USING'"
            yield _finding("sql-calls-no-java", step, _line(text, script), says, "write a python step")


def sql_reads_streams_only(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step reads sources and steps, no files and no other tables."""
    for step, text in sql_steps(pipeline):
        files = {match[1].strip("`"): _line(text, match) for match in _FILE.finditer(text)}
        tables = [name for name in step.reads if not is_plain(name)]
        told = [name for path in files for name in tables if name.endswith(path)]
        for name in (*tables, *(path for path in files if not any(each.endswith(path) for each in told))):
            line = next((line for path, line in files.items() if name.endswith(path)), 1)
            says = f"step {step.name!r} reads {name!r}, which is no source and no step"
            fix = "make it a source; a step does not open files or tables itself"
            yield _finding("sql-reads-streams-only", step, line, says, fix)


def sql_stays_as_written(pipeline: Pipeline) -> Iterator[Finding]:
    """What Spark runs is what was checked: no `${...}` is left for Spark to replace."""
    for step, text in sql_steps(pipeline):
        at = text.find("${")
        if at >= 0:
            says = f"step {step.name!r} has '${{' in its SQL, which Spark would replace with a setting"
            line = text.count("\n", 0, at) + 1
            yield _finding("sql-stays-as-written", step, line, says, "write ${NAME} and give the variable")


def sql_is_understood(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step reads as SQL."""
    for step, text in sql_steps(pipeline):
        problem = parse(text).problem
        if problem is not None:
            says = f"step {step.name!r}: the SQL is not understood at {problem.near!r}"
            fix = "correct it, or ask Spark itself with 'penstock check --deep'"
            yield _finding("sql-is-understood", step, problem.line, says, fix, "warning")


def _is_query(tree: Any) -> bool:
    from sqlglot import exp

    writing = (exp.Insert, exp.Create, exp.Update, exp.Delete, exp.Merge, exp.Drop, exp.Command, exp.Set)
    return isinstance(tree, exp.Query | exp.Values) and tree.find(*writing) is None


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start(1)) + 1


def _finding(
    rule: str, step: Step, line: int, says: str, fix: str, severity: Literal["error", "warning"] = "error"
) -> Finding:
    return Finding(rule, in_text(step, line), says, fix, severity)
