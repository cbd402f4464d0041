"""SQL steps: one SELECT over the pipeline's own streams, and nothing that reaches out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from penstock.checks.texts import in_text, is_plain, sql_steps
from penstock.model import Finding, Pipeline, Step
from penstock.sql import parse

# Looked for in the text itself, not in what sqlglot makes of it: Spark's own reading is what counts.
_GAP = r"\s*(?:(?:/\*.*?\*/|--[^\n]*\n)\s*)*"
_JAVA = re.compile(rf"\b(try_reflect|reflect|java_method|identifier)`?{_GAP}\(", re.IGNORECASE | re.DOTALL)
_SCRIPT = re.compile(rf"\b(using){_GAP}r?['\"]", re.IGNORECASE | re.DOTALL)
_FILE = re.compile(rf"\b(\w+)`?{_GAP}\.{_GAP}`([^`]*[/:\\][^`]*)`", re.DOTALL)
# These two only where there is no tree to look at.
_FORMAT = re.compile(
    rf"\b(text|csv|json|xml|parquet|orc|avro|delta|binaryfile)`?{_GAP}\.{_GAP}`([^`]+)`", re.I | re.DOTALL
)
_WRITES = re.compile(
    rf"\b(insert{_GAP}(into|overwrite)|delete{_GAP}from|merge{_GAP}into|update\b[^;]{{1,200}}?\bset)\b",
    re.I | re.DOTALL,
)
_WHY = {"identifier": "it can name any table or function"}


def sql_is_one_select(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step is one SELECT, and changes nothing."""
    for step, text in sql_steps(pipeline):
        parsed = parse(text)
        second = parsed.second_statement
        if not parsed.tokens:
            found = "has SQL that cannot be read" if parsed.problem else "has no SQL in it"
            yield _finding("sql-is-one-select", step, 1, f"step {step.name!r} {found}", "write a SELECT")
        elif not parsed.is_query:
            says = f"step {step.name!r} starts with {parsed.first!r}, and a step is one SELECT"
            yield _finding("sql-is-one-select", step, parsed.tokens[0].line, says, "take the statement out")
        elif second is not None:
            says = f"step {step.name!r} has a second statement, starting with {second.text!r}"
            yield _finding("sql-is-one-select", step, second.line, says, "make it a step of its own")
        elif _WRITES.search(text) if parsed.tree is None else not _is_query(parsed.tree):
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
        files = _files(text)
        tables = {name: _line_of_file(files, name) for name in step.reads if not is_plain(name)}
        unseen = {path: line for path, line in files.items() if not any(name.endswith(path) for name in tables)}
        for name, line in {**tables, **unseen}.items():
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
        if problem is not None and parse(text).tokens:
            says = f"step {step.name!r}: the SQL is not understood at {problem.near!r}"
            fix = "correct it, or ask Spark itself with 'penstock check --deep'"
            yield _finding("sql-is-understood", step, problem.line, says, fix, "warning")


def _files(text: str) -> dict[str, int]:
    """Paths that look like files read as tables, and their lines; `t`.`a/b` of a table t is a column."""
    tree = parse(text).tree
    tables = _tables(tree)
    looks = [*_FILE.finditer(text), *(_FORMAT.finditer(text) if tree is None else ())]
    return {match[2]: _line(text, match) for match in looks if match[1].lower() not in tables}


def _line_of_file(files: dict[str, int], name: str) -> int:
    return next((line for path, line in files.items() if name.endswith(path)), 1)


def _tables(tree: Any) -> set[str]:
    from sqlglot import exp

    found = tree.find_all(exp.Table, exp.TableAlias) if tree is not None else ()
    single = (each for each in found if isinstance(each, exp.TableAlias) or len(each.parts) == 1)
    return {each.name.lower() for each in single}


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
