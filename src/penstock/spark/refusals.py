"""Spark's refusals of a query in our words: the same findings that `check` has, where only Spark could see them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.spark.errors import error_class, summary
from penstock.text import did_you_mean

ANY_REFUSAL = "spark-accepts-it"
"""The rule of refusals that no other rule is about."""
_NAME = r"`(?P<name>[^`]+(?:`\.`[^`]+)*)`"
_MODES = "use mode append"
_BOUND = "add 'watermark' to both sources, and a bound: AND b.at BETWEEN a.at AND a.at + INTERVAL 1 HOUR"


@dataclass(frozen=True)
class Refusal:
    """Why Spark refuses a query, and what to do."""

    rule: str
    says: str
    fix: str


@dataclass(frozen=True)
class _Sentence:
    """What a sentence of Spark means; `{name}` is what its pattern found."""

    pattern: str
    rule: str
    says: str
    fix: str


_SENTENCES = (
    _Sentence(rf"with name {_NAME} cannot be resolved", "columns-exist", "there is no column {name!r}", ""),
    _Sentence(rf"No such struct field {_NAME}", "columns-exist", "there is no field {name!r}", ""),
    _Sentence(
        rf"USING column {_NAME} cannot be resolved", "columns-exist", "USING names {name!r}, an unknown column", ""
    ),
    _Sentence(
        r"Streaming query is not allowed in subquery",
        "subqueries-are-static",
        "it has a subquery over a stream in an expression",
        "write it as a join, with a time bound",
    ),
    _Sentence(
        r"monotonically_increasing_id\(\) is not supported",
        "ids-come-from-records",
        "it calls monotonically_increasing_id(), which streaming queries cannot have",
        "with 'metadata: true', build an id from the record's topic, partition and offset",
    ),
    _Sentence(
        rf"Cannot resolve routine {_NAME}",
        "functions-exist",
        "Spark has no function {name!r}",
        "use one of Spark's functions",
    ),
    _Sentence(
        rf"Reference {_NAME} is ambiguous",
        "columns-are-unambiguous",
        "{name!r} is ambiguous",
        "write the name of its table before it",
    ),
    _Sentence(
        r"Append output mode.*without watermark|streaming aggregations without watermark",
        "append-has-watermark",
        "it aggregates without an event time in mode append: no group is ever final",
        "add 'watermark' to the source and group by a window of that column, or use mode update or complete",
    ),
    _Sentence(
        r"no streaming aggregations",
        "complete-has-aggregation",
        "mode complete needs an aggregation",
        "use mode append",
    ),
    _Sentence(
        r"session window streaming aggregations",
        "sessions-fit",
        "session windows are not written in mode update",
        "use mode append, or complete",
    ),
    _Sentence(
        r"Distinct aggregations are not supported",
        "distinct-is-approximate",
        "streaming aggregates cannot be DISTINCT",
        "use approx_count_distinct(x), or size(collect_set(x)) for the exact number",
    ),
    _Sentence(
        r"Sorting is not supported",
        "streams-are-not-sorted",
        "it sorts a stream, which has no end",
        "sort where the rows are read, or use mode complete with a GROUP BY",
    ),
    _Sentence(
        r"Non-time-based windows? (?:are|is) not supported|NON_TIME_WINDOW_NOT_SUPPORTED",
        "streams-are-not-windowed",
        "it computes an analytic function (OVER) of a stream, which Spark cannot do",
        "use a 'running' step for totals, 'top' or 'latest' for the best or newest rows, 'dedupe' for the first",
    ),
    _Sentence(
        r"Limits are not supported", "streams-are-whole", "it has LIMIT in mode update", "use max_by(row, column, n)"
    ),
    _Sentence(r"Offset is not supported", "streams-are-whole", "it has OFFSET of a stream", "remove it"),
    _Sentence(r"Sampling is not supported", "streams-are-whole", "it samples a stream", "write WHERE rand() < 0.1"),
    _Sentence(
        r"Union between streaming and batch",
        "streams-are-combined",
        "it has a UNION of a stream and a static table",
        "read the table as a stream, without 'static'",
    ),
    _Sentence(
        r"(?:Except|Intersect) (?:on|of) a? ?streaming",
        "streams-are-combined",
        "it has EXCEPT or INTERSECT of streams",
        "join the streams with a time bound, or look the rows up in a static table with NOT EXISTS",
    ),
    _Sentence(
        r"join between two streaming .* is not supported in \w+ output mode",
        "joins-of-streams-end",
        "it joins two streams, which this output mode cannot write",
        _MODES,
    ),
    _Sentence(
        r"is not supported without a watermark in the join keys",
        "joins-of-streams-end",
        "an outer join of two streams never knows that a row has no match",
        _BOUND,
    ),
    _Sentence(
        r"(?:FullOuter|RightOuter|LeftOuter|LeftAnti|LeftSemi) joins? with (?:a )?streaming",
        "joins-keep-streams",
        "it keeps rows of a static table that the stream may match later",
        "put the stream on the side that is kept: stream LEFT JOIN table",
    ),
    _Sentence(
        r"dropDuplicatesWithinWatermark is not supported .* without watermark",
        "dedupe-has-watermark",
        "it forgets keys by the watermark, and its rows have none",
        "add 'watermark' to the source and keep its column, or set 'remember: forever'",
    ),
    _Sentence(
        r"possible 'correctness' issue|MULTI.*STATEFUL.*OPERATOR",
        "chains-append",
        "it keeps state over the result of other state outside mode append",
        _MODES,
    ),
    _Sentence(
        r"Continuous processing does not support",
        "trigger-fits-steps",
        "a continuous query only selects and filters, without the clock",
        "use a duration like '1 second' as trigger",
    ),
)
#: Where Spark's sentence names the expression and the types, it stays; what to do is ours.
_CLASSES = {
    "DATATYPE_MISMATCH": ("types-fit", "cast it to the type that is needed"),
    "WRONG_NUM_ARGS": ("types-fit", "correct the arguments"),
    "NUM_COLUMNS_MISMATCH": ("types-fit", "select the same number of columns"),
    "INCOMPATIBLE_COLUMN_TYPE": ("types-fit", "cast one of the columns"),
    "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE": ("types-fit", "compare it with something"),
    "INVALID_EXTRACT": ("types-fit", "only structs have fields, and only arrays and maps have elements"),
    "MISSING_AGGREGATION": ("groups-are-complete", "group by it, or take any of its values: any_value(x)"),
    "MISSING_GROUP_BY": ("groups-are-complete", "add GROUP BY"),
    "NESTED_AGGREGATE_FUNCTION": ("groups-are-complete", "compute it in a subquery or in another step"),
    "INVALID_WHERE_CONDITION": ("groups-are-complete", "use HAVING, after GROUP BY"),
    "PARSE_SYNTAX_ERROR": ("sql-is-understood", "correct it"),
}


def translate(error: BaseException) -> Refusal:
    """Spark's refusal as one of our findings; in its own sentence if that is the best there is."""
    text, name = summary(error), error_class(error)
    for each in _SENTENCES:
        match = re.search(each.pattern, text)
        if match is not None:
            found = {key: value.replace("`", "") for key, value in match.groupdict().items()}
            return Refusal(each.rule, each.says.format(**found), each.fix or _suggest(text, found.get("name", "")))
    known = next((kind for kind in _CLASSES if name.startswith(kind)), None)
    rule, fix = _CLASSES[known] if known is not None else (ANY_REFUSAL, "")
    return Refusal(rule, text, fix)


def _suggest(text: str, name: str) -> str:
    """The nearest of the names that Spark lists in brackets."""
    listed = re.search(r"\[((?:`[^`]+`[., ]*)+)\]", text)
    names = [each.replace("`", "") for each in re.findall(r"(?:`[^`]+`\.?)+", listed[1])] if listed else []
    return did_you_mean(name.rpartition(".")[2], [each.rpartition(".")[2] for each in names]) if names else ""
