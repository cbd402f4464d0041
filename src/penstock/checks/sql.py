"""SQL steps: one SELECT over the pipeline's streams, and nothing else.

These rules use the tokens of Spark's lexer, so words in strings and comments do not count. They help the author of the
file, who can run any Python anyway; SQL from a browser is checked with Spark's own parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import Any, Literal

from penstock.checks.plan import Mistake
from penstock.checks.plan_of_pipeline import analyse
from penstock.checks.sql_text import find_table, is_plain, sql_steps
from penstock.model import Finding, Pipeline, Step
from penstock.sql import Parsed, Token, parse
from penstock.steps.join import JoinStep
from penstock.steps.top import TopStep
from penstock.text import did_you_mean, nearest

_JAVA = frozenset({"reflect", "java_method", "try_reflect"})
_FORMATS = frozenset({"text", "csv", "json", "xml", "parquet", "orc", "avro", "delta", "binaryfile"})
_WRITES = {"INSERT": ("INTO", "OVERWRITE"), "DELETE": ("FROM",), "MERGE": ("INTO",)}


def sql_is_one_select(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step is a single SELECT and writes nothing."""
    for step, text in sql_steps(pipeline):
        parsed = parse(text)
        second = parsed.second_statement
        if not parsed.tokens:
            if parsed.problem is None:
                yield _finding("sql-is-one-select", step, 0, f"step {step.name!r} has no SQL in it", "write a SELECT")
        elif not parsed.is_query:
            says = f"step {step.name!r} starts with {parsed.first!r}, and a step is one SELECT"
            fix = suggest_query_start(parsed.tokens) or "remove the statement"
            yield _finding("sql-is-one-select", step, parsed.tokens[0].start, says, fix)
        elif second is not None:
            says = f"step {step.name!r} has a second statement, starting with {second.text!r}"
            yield _finding("sql-is-one-select", step, second.start, says, "make it a separate step")
        elif (empty := _find_empty_select(parsed)) is not None:
            says = f"step {step.name!r} has a SELECT that selects nothing"
            yield _finding("sql-is-one-select", step, empty, says, "name columns, or write *")
        elif _writes(parsed):
            says = f"step {step.name!r} writes, and a step is one SELECT"
            yield _finding("sql-is-one-select", step, _find_write(parsed), says, "use a sink to write")


def sql_calls_no_java(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step calls no Java method and no program."""
    for step, text in sql_steps(pipeline):
        for first, second in pairwise(parse(text).tokens):
            name = first.name.lower()
            if name in _JAVA and first.is_name and second.text == "(":
                says = f"step {step.name!r} uses {first.name!r}; it can call any Java method"
                yield _finding("sql-calls-no-java", step, first.start, says, "remove it")
            elif name == "identifier" and second.text == "(":
                says = f"step {step.name!r} uses {first.name!r}; it can name any table or function"
                yield _finding("sql-calls-no-java", step, first.start, says, "remove it")
            elif first.type == "word" and name == "using" and second.type == "string":
                says = f"step {step.name!r} pipes rows to a program with 'USING'"
                yield _finding("sql-calls-no-java", step, first.start, says, "write a python step")


def sql_reads_streams_only(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step reads only sources and steps, not files or other tables."""
    for step, text in sql_steps(pipeline):
        files = _find_files(parse(text))
        tables = {name: _start_of_file(files, name, text) for name in step.reads if not is_plain(name)}
        unseen = {path: start for path, start in files.items() if not any(name.endswith(path) for name in tables)}
        for name, start in {**tables, **unseen}.items():
            says = f"step {step.name!r} reads {name!r}, which is neither a source nor a step"
            fix = "make it a source; a step does not open files or tables itself"
            yield _finding("sql-reads-streams-only", step, start, says, fix)


def sql_stays_as_written(pipeline: Pipeline) -> Iterator[Finding]:
    """Spark runs the text that was checked: it has no `${...}` that Spark would substitute."""
    for step, text in sql_steps(pipeline):
        at = text.find("${")
        if at >= 0:
            says = f"step {step.name!r} has '${{' in its SQL, which Spark would substitute with a setting"
            yield _finding("sql-stays-as-written", step, at, says, "write ${NAME} and give the variable")


def sql_comments_are_plain(pipeline: Pipeline) -> Iterator[Finding]:
    """Comments end where a human reader sees them end."""
    for step, text in sql_steps(pipeline):
        parsed = parse(text)
        for comment in parsed.comments:
            if comment.text.startswith("--") and "\\\n" in comment.text:
                says = (
                    f"step {step.name!r}: a '--' comment ends in a backslash, so the next line is part of it for Spark"
                )
                yield _finding("sql-comments-are-plain", step, comment.start, says, "remove the backslash")
        at = _find_lone_return(text, parsed)
        if at >= 0:
            says = f"step {step.name!r} has a carriage return without a line feed, where Spark ends a '--' comment"
            yield _finding("sql-comments-are-plain", step, at, says, "end lines with a line feed")


def sql_is_understood(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step can be parsed."""
    for step, text in sql_steps(pipeline):
        problem = parse(text).problem
        if problem is None:
            continue
        says = f"step {step.name!r}: the SQL cannot be parsed at {problem.near!r}"
        if problem.is_sure:
            yield _finding("sql-is-understood", step, problem.start, says, "correct it")
        else:
            fix = "if it is correct, check it with Spark's own parser: 'penstock check --deep'"
            yield _finding("sql-is-understood", step, problem.start, says, fix, "warning")


def _writes(parsed: Parsed) -> bool:
    if parsed.tree is not None:
        return not _is_query(parsed.tree)
    words = [token.text.upper() for token in parsed.tokens if token.type == "word"]
    return any(second in _WRITES.get(first, ()) for first, second in pairwise(words))


def _find_empty_select(parsed: Parsed) -> int | None:
    """Where a SELECT without columns starts; None if there is none."""
    before = None
    for token, following in zip_longest(parsed.tokens, parsed.tokens[1:]):
        ends = following is None or following.text.upper() in (")", "FROM", "WHERE", "UNION")
        if token.type == "word" and token.text.upper() == "SELECT" and ends and before != ".":
            return token.start
        before = token.text
    return None


def _find_write(parsed: Parsed) -> int:
    pairs = pairwise(token for token in parsed.tokens if token.type == "word")
    return next((one.start for one, two in pairs if two.text.upper() in _WRITES.get(one.text.upper(), ())), 0)


def _find_files(parsed: Parsed) -> dict[str, int]:
    """Paths that look like files read as tables, with their starts; `t`.`a/b` of a table t is a column."""
    tables = _tables(parsed.tree)
    triples = zip(parsed.tokens, parsed.tokens[1:], parsed.tokens[2:], strict=False)
    return {
        path.name: owner.start
        for owner, dot, path in triples
        if dot.text == "." and _is_file(owner, path, parsed.tree is not None) and owner.name.lower() not in tables
    }


def _is_file(owner: Token, path: Token, has_tree: bool) -> bool:
    if not owner.is_name or path.type != "quoted":
        return False
    # Without a tree, the name of a format counts as well.
    return any(char in path.name for char in "/:\\") or (not has_tree and owner.name.lower() in _FORMATS)


def _start_of_file(files: dict[str, int], name: str, text: str) -> int:
    return next((start for path, start in files.items() if name.endswith(path)), find_table(text, name))


def _tables(tree: Any) -> set[str]:
    from sqlglot import exp

    found = tree.find_all(exp.Table, exp.TableAlias) if tree is not None else ()
    single = (each for each in found if isinstance(each, exp.TableAlias) or len(each.parts) == 1)
    return {each.name.lower() for each in single}


def _is_query(tree: Any) -> bool:
    from sqlglot import exp

    writing = (exp.Insert, exp.Create, exp.Update, exp.Delete, exp.Merge, exp.Drop, exp.Command, exp.Set)
    return isinstance(tree, exp.Query | exp.Values) and tree.find(*writing) is None


def _find_lone_return(text: str, parsed: Parsed) -> int:
    """The position of a lone carriage return outside strings; -1 if there is none."""
    inside = [range(token.start, token.end) for token in parsed.tokens if token.type in ("string", "quoted")]
    at = text.find("\r")
    while at >= 0 and (text[at + 1 : at + 2] == "\n" or any(at in span for span in inside)):
        at = text.find("\r", at + 1)
    return at


def _finding(
    rule: str, step: Step, start: int, says: str, fix: str, severity: Literal["error", "warning"] = "error"
) -> Finding:
    return Finding(rule, step.locate(start), says, fix, severity)


_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_STATEMENTS = ("DELETE", "EXECUTE", "SET")
"""Statements that look like a misspelled query."""
_FLINK = {
    "TUMBLE": "window(t, '10 minutes')",
    "HOP": "window(t, '10 minutes', '5 minutes')",
    "SESSION": "session_window(t, '5 minutes')",
}
_PARTS = {"START": "start", "END": "end", "ROWTIME": "end", "PROCTIME": "end"}
_MAX_TOKENS = 60
"""How many tokens of a call's arguments are read."""


def suggest_query_start(tokens: Sequence[Token]) -> str | None:
    """`did you mean SELECT?` if the first word is a misspelled start of a query; None otherwise."""
    words = tokens[0].text.split() if tokens else []
    if not words or words[0].upper() in (*_QUERY_STARTS, *_STATEMENTS):
        return None
    near = nearest(words[0], _QUERY_STARTS)
    return f"did you mean {near}?" if near else None


def sql_uses_spark_windows(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step writes windows as Spark does."""
    for step, text in sql_steps(pipeline):
        for token, spark_form in find_flink_windows(parse(text).tokens):
            says = f"step {step.name!r}: {token.text!r} is a window of Flink, which Spark does not have"
            yield Finding("sql-uses-spark-windows", step.locate(token.start), says, f"write {spark_form}")


def find_flink_windows(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Flink's TUMBLE, HOP and SESSION, each with Spark's form."""
    for at, token in enumerate(tokens[:-1]):
        function, _, part = token.text.upper().partition("_")
        if function in _FLINK and (not part or part in _PARTS) and tokens[at + 1].text == "(":
            arguments = _arguments(tokens, at + 2)
            # A table or an alias may have one of these names; only a window call has a duration or a descriptor.
            if {"INTERVAL", "DESCRIPTOR"} & {each.upper() for each in arguments}:
                yield token, _spark_form(function, part, arguments)


def _arguments(tokens: Sequence[Token], start: int) -> list[str]:
    depth, found = 1, []
    for token in tokens[start : start + _MAX_TOKENS]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            break
        found.append(token.text)
    return found


def _spark_form(function: str, part: str, arguments: list[str]) -> str:
    window = "session_window" if function == "SESSION" else "window"
    if part:
        return f"{window}.{_PARTS[part]}"
    column, durations = _column(arguments), _durations(arguments)
    if not column or len(durations) != (2 if function == "HOP" else 1):
        return _FLINK[function]
    # Flink has the slide before the size, Spark the size before the slide.
    return f"{window}({', '.join([column, *(repr(each) for each in reversed(durations))])})"


def _column(arguments: list[str]) -> str:
    upper = [each.upper() for each in arguments]
    if "DESCRIPTOR" in upper:
        at = upper.index("DESCRIPTOR") + 2
        return arguments[at] if at < len(arguments) else ""
    return "".join(arguments[: arguments.index(",")]) if "," in arguments else ""


def _durations(arguments: list[str]) -> list[str]:
    starts = [at for at, each in enumerate(arguments[:-2]) if each.upper() == "INTERVAL"]
    return [_duration(arguments[at + 1].strip("'\""), arguments[at + 2].lower()) for at in starts]


def _duration(count: str, unit: str) -> str:
    singular = unit.removesuffix("s")
    return f"{count} {singular}" if count == "1" else f"{count} {singular}s"


def columns_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """A column that SQL or an option of a step names is one of the tables that it reads."""
    yield from _mistakes(pipeline, "columns-exist")
    plans = analyse(pipeline).plans
    for step in pipeline.steps:
        for option, stream, names in step.what.named_columns:
            plan = plans.get(stream)
            have = [column.name for column in plan.columns or ()] if plan is not None else []
            for name in names if have else ():
                if name.split(".")[0].strip("`").lower() not in [each.lower() for each in have]:
                    says = f"step {step.name!r}: {option!r} names {name!r}, which {stream!r} does not have"
                    at = pipeline.where(step, step.what.kind, option)
                    yield Finding("columns-exist", at, says, did_you_mean(name, have))


def functions_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """A function that SQL calls is one of Spark's."""
    if pipeline.listeners or any(step.what.runs_user_code for step in pipeline.steps):
        # Python code may register functions.
        return
    for step, text in sql_steps(pipeline):
        for each in _unknown_functions(text):
            yield _mistake_finding(step, each)


def _unknown_functions(text: str) -> Iterator[Mistake]:
    from penstock.checks.names_in_sql import unknown_functions

    tree = parse(text).tree
    return unknown_functions(tree, text) if tree is not None else iter(())


def columns_are_unambiguous(pipeline: Pipeline) -> Iterator[Finding]:
    """A column that SQL names without its table is in one table only, and so is one that a join step adds."""
    yield from _mistakes(pipeline, "columns-are-unambiguous")
    plans = analyse(pipeline).plans
    for step in pipeline.steps:
        read = [[column.name for column in plans[name].columns or ()] for name in step.reads if name in plans]
        if isinstance(step.what, JoinStep) and len(read) == 2 and all(read):
            twice = step.what.find_collision(*read)
            if twice is not None:
                says, fix = step.what.explain_collision(twice)
                yield Finding("columns-are-unambiguous", step.at, f"step {step.name!r}: {says}", fix)
        if isinstance(step.what, TopStep) and read and step.what.has_collision(read[0]):
            says = f"step {step.name!r}: {step.reads[0]!r} has a column {step.what.rank!r} already"
            at = pipeline.where(step, "top", "rank")
            yield Finding("columns-are-unambiguous", at, says, "give the place another name with 'rank'")


def types_fit(pipeline: Pipeline) -> Iterator[Finding]:
    """Functions, operators and conditions accept the types that they are given."""
    yield from _mistakes(pipeline, "types-fit")


def groups_are_complete(pipeline: Pipeline) -> Iterator[Finding]:
    """Next to aggregates, SELECT has only what it groups by."""
    yield from _mistakes(pipeline, "groups-are-complete")


def _mistakes(pipeline: Pipeline, rule: str) -> Iterator[Finding]:
    found = analyse(pipeline).mistakes
    for step, _ in sql_steps(pipeline):
        yield from (_mistake_finding(step, each) for each in found.get(step.name, ()) if each.rule == rule)


def _mistake_finding(step: Step, found: Mistake) -> Finding:
    return Finding(found.rule, step.locate(found.start), f"step {step.name!r}: {found.says}", found.fix)
