"""python -m tools.list_functions: write what the installed Spark accepts to src/penstock/checks/functions.txt.

A line is `name group counts accepts result`:

    counts    how many arguments it takes: 1, 1-3 or 2+
    accepts   for each argument the types that Spark accepts there, one letter each; * where that depends on more
    result    a letter; =1 for the type of the first argument; i>l,d>d by the first argument's type; ? if unknown

Operators, casts and unions have the group `pairs`, and pairs of types with their result: `ii>i,id>d`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from penstock.checks.functions import LETTERS

FILE = Path(__file__).parents[1] / "src/penstock/checks/functions.txt"
TYPES = {**LETTERS, "n": "decimal(10,2)"}
OPERATORS = ("+", "-", "*", "/", "%", "div", "=", "<=>", "<", "<=", ">", ">=", "and", "or", "||", "&", "|", "^")
WORDS = ("like", "rlike")
MOST = 8
"""The most arguments that are tried; a function that takes so many takes any number."""
Results = dict[str, str]


class Spark:
    """Asks Spark's analyser for the types of expressions."""

    def __init__(self, session: Any) -> None:
        self.session = session
        ddl = ", ".join(f"{letter}_{letter.isupper():d} {kind}" for letter, kind in TYPES.items())
        session.createDataFrame([], ddl).createOrReplaceTempView("probe")
        self._state = session._jsparkSession.sessionState()

    def types(self, expressions: list[str]) -> list[str | None]:
        """The type of each expression; None if Spark refuses it."""
        try:
            items = self._analyse(expressions).expressions()
            found = [self._type(items.apply(place)) for place in range(items.size())]
        except Exception:  # a function that refuses while it is built ends the whole query
            if len(expressions) == 1:
                return [None]
            return [kind for each in expressions for kind in self.types([each])]
        if len(expressions) == 1:
            # The entries of a map are two columns.
            return [found[0] if len(found) == 1 or None in found else ""]
        return found if len(found) == len(expressions) else [k for each in expressions for k in self.types([each])]

    @staticmethod
    def _type(item: Any) -> str | None:
        return item.dataType().simpleString() if item.resolved() else None

    def takes(self, call: str) -> bool:
        """Whether a number of arguments is right, whatever their types."""
        try:
            self._analyse([call])
        except Exception as error:
            return "WRONG_NUM_ARGS" not in str(error)
        return True

    def builds(self, call: str) -> bool:
        """Whether a call can be built with these arguments, whatever their types."""
        try:
            self._analyse([call])
        except Exception:
            return False
        return True

    def accepts(self, query: str) -> bool:
        """Whether Spark accepts a whole query."""
        try:
            self.session.sql(query)
        except Exception:
            return False
        return True

    def _analyse(self, expressions: list[str]) -> Any:
        text = f"SELECT {', '.join(expressions)} FROM probe"
        return self._state.analyzer().execute(self._state.sqlParser().parsePlan(text))


def column(letter: str) -> str:
    """The column of a type; NULL for a space, a literal for a quote."""
    return {" ": "NULL", "'": "'1 minute'", '"': "'utf-8'"}.get(letter, f"{letter}_{letter.isupper():d}")


def letter_of(kind: str | None) -> str:
    """The letter of a type; ? for one without."""
    kind = (kind or "").replace("float", "double") if kind == "float" else kind or ""
    if kind.startswith("decimal"):
        return "n"
    return next((letter for letter, each in TYPES.items() if each == kind), "?")


def registered(spark: Any) -> Iterator[tuple[str, str, bool]]:
    """Name and group of every function, and whether it makes a table."""
    catalyst = spark._jvm.org.apache.spark.sql.catalyst.analysis
    scalar = catalyst.FunctionRegistry.builtin()
    for registry in (scalar, catalyst.TableFunctionRegistry.builtin()):
        names = registry.listFunction()
        for place in range(names.size()):
            name = names.apply(place)
            info = registry.lookupFunction(name).get()
            yield name.funcName(), info.getGroup() or "other", registry is not scalar


def describe(spark: Spark, name: str) -> tuple[str, str, str]:
    """The counts, accepted types and result of a function."""
    counts = [count for count in range(MOST + 1) if spark.takes(f"{name}({', '.join(['NULL'] * count)})")]
    if not counts:
        return "*", "-", "?"
    samples: Results = {}
    accepted: list[set[str]] = [set() for _ in range(min(counts[-1], 3))]
    for count in [count for count in counts if count <= 3]:
        for letters, result in try_calls(spark, name, count).items():
            samples[letters] = result
            for place, letter in enumerate(letters):
                accepted[place].update(TYPES if letter == "'" else {letter} & TYPES.keys())
    known = ["".join(letter for letter in TYPES if letter in each) or "*" for each in accepted]
    known = ["*" if len(each) == len(TYPES) else each for each in known]
    return format_counts(counts), ",".join(known) or "-", summarize(samples)


def try_calls(spark: Spark, name: str, count: int) -> Results:
    """The argument types that Spark accepts, with their results; a space is NULL."""
    if count == 0:
        (found,) = spark.types([f"{name}()"])
        return {"": letter_of(found)} if found else {}
    every = [*TYPES, " ", '"'] if count == 2 else [*TYPES, " "]
    combinations = ["".join(each) for each in product(every, repeat=min(count, 2))]
    if not spark.builds(f"{name}({', '.join(['NULL'] * count)})"):
        # It wants literals, as window does.
        combinations = [letter + "'" * (count - 1) for letter in TYPES]
    elif count == 3:
        others = [" ", "s", "i", "h", "m"]
        three = [(t, o, p) for t in TYPES for o in (*others, t) for p in (*others, t)]
        combinations = sorted({"".join(x) for t, o, p in three for x in ((t, o, p), (o, t, p), (o, p, t))})
    calls = [f"{name}({', '.join(map(column, each))})" for each in combinations]
    found = spark.types(calls)
    return {each: letter_of(kind) for each, kind in zip(combinations, found, strict=True) if kind is not None}


def summarize(samples: Results) -> str:
    """The result as a rule of the arguments."""
    typed = {letters: result for letters, result in samples.items() if not {" ", "'", '"'} & set(letters)}
    results = set(typed.values())
    if len(results) == 1:
        return results.pop()
    if typed and all(letters and letters[0] == result for letters, result in typed.items()):
        return "=1"
    first = {letters[0]: {r for each, r in typed.items() if each[:1] == letters[0]} for letters in typed if letters}
    sure = {letter: found.pop() for letter, found in first.items() if len(found) == 1}
    text = ",".join(f"{letter}>{result}" for letter, result in sure.items() if result != "?")
    return text or "?"


def format_counts(counts: list[int]) -> str:
    """1, 1-3, 2+ or 1|3."""
    if counts[-1] == MOST:
        return f"{counts[0]}+"
    if counts == list(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]}-{counts[-1]}" if len(counts) > 1 else str(counts[0])
    return "|".join(map(str, counts))


def pairs(accepts: Callable[[str, str], str | None]) -> str:
    """The pairs of types that are accepted, with their result."""
    found = {one + other: accepts(one, other) for one, other in product(TYPES, repeat=2)}
    return ",".join(f"{letters}>{result}" for letters, result in found.items() if result is not None)


def operator_pairs(spark: Spark, operator: str) -> str:
    """What an operator accepts."""
    keys = list(product(TYPES, repeat=2))
    found = spark.types([f"({column(one)} {operator} {column(other)})" for one, other in keys])
    kinds = {one + other: kind for (one, other), kind in zip(keys, found, strict=True)}
    return pairs(lambda one, other: letter_of(kinds[one + other]) if kinds[one + other] else None)


def lines(session: Any) -> Iterator[str]:
    """The lines of the file."""
    spark = Spark(session)
    for operator in (*OPERATORS, *WORDS):
        yield f"{operator} pairs 2 - {operator_pairs(spark, operator)}"
    casts = pairs(lambda a, b: b if spark.types([f"CAST({column(a)} AS {TYPES[b]})"])[0] else None)
    yield f"cast pairs 2 - {casts}"
    union = "SELECT {} FROM probe UNION ALL SELECT {} FROM probe"
    unions = pairs(lambda a, b: "?" if spark.accepts(union.format(column(a), column(b))) else None)
    yield f"union pairs 2 - {unions}"
    seen: set[str] = set()
    for name, group, makes_table in sorted(set(registered(session))):
        if name in seen:
            # A generator is a function of both kinds.
            continue
        seen.add(name)
        described = ("*", "-", "?") if makes_table or not name[0].isalpha() else describe(spark, name)
        yield " ".join((name, group, *described))


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    started = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    FILE.write_text("".join(f"{line}\n" for line in lines(started)), encoding="utf-8")
    started.stop()
