"""Our tokenizer cuts a text exactly as Spark's lexer does."""

from __future__ import annotations

import random
import re
from typing import Any

from py4j.java_gateway import get_field
from pyspark.sql import SparkSession

from penstock.sql import tokenize

# Everything that begins, ends or hides something, and letters, digits and spaces that lexers disagree about.
PIECES = (
    *("--", "\r", "\n", "\\", "\\\n", "/*", "*/", "/*+", "'", '"', "`", "``", "''", "r'", 'R"', "$$", "$a$", "\\'"),
    *("x", "reflect", "(", ")", ".", "1", "1e5", "1.5", "_", "://", "s3://a-b", "s://a", "/", "*", "-", "|>", "'a'"),
    *(" ", "\t", "\u00a0", "\u2028", "\u0085", "\x1c", "\ufeff", "\u200b", "\u180e", "\0", "é", "ａ", "²", "٣"),
)
KINDS = {
    "STRING_LITERAL": "string",
    "DOUBLEQUOTED_STRING": "string",
    "BACKQUOTED_IDENTIFIER": "quoted",
    "SIMPLE_COMMENT": "comment",
    "BRACKETED_COMMENT": "comment",
}


def spark_tokens(spark: SparkSession, text: str) -> list[tuple[str, int, int]] | None:
    """What Spark's lexer finds: kind, start and end; None if something is not closed."""
    session: Any = spark
    parser, antlr = session._jvm.org.apache.spark.sql.catalyst.parser, session._jvm.org.antlr.v4.runtime
    lexer = parser.SqlBaseLexer(parser.UpperCaseCharStream(antlr.CharStreams.fromString(text)))
    # In one call: [@-1,START:STOP='TEXT',<TYPE>,...]; each token begins where the one before ended.
    printed = str(lexer.getAllTokens().toString())
    found, at = [], 0
    for match in re.finditer(r"\[@-?\d+,(\d+):(\d+)='.*?',<(\d+)>", printed, re.DOTALL):
        if int(match[1]) == at:
            at = int(match[2]) + 1
            found.append((str(lexer.getVocabulary().getSymbolicName(int(match[3]))), int(match[1]), at))
    return None if get_field(lexer, "has_unclosed_bracketed_comment") else _join_dollar_strings(text, found)


def _join_dollar_strings(text: str, found: list[tuple[str, int, int]]) -> list[tuple[str, int, int]] | None:
    joined: list[tuple[str, int, int]] = []
    opened = -1
    for name, start, end in found:
        if name == "BEGIN_DOLLAR_QUOTED_STRING":
            opened = start
        elif name == "END_DOLLAR_QUOTED_STRING":
            joined.append(("string", opened, end))
            opened = -1
        elif opened < 0 and name == "UNRECOGNIZED" and text[start] in "'\"`":
            return None
        elif opened < 0 and name != "WS":
            joined.append((KINDS.get(name, "other"), start, end))
    return None if opened >= 0 else joined


def our_tokens(text: str) -> list[tuple[str, int, int]] | None:
    """The same of our tokenizer."""
    try:
        found = tokenize(text)
    except ValueError:
        return None
    return [(each.type if each.type in KINDS.values() else "other", each.start, each.end) for each in found]


def comparable(text: str, found: list[tuple[str, int, int]] | None) -> Any:
    """Comments and quotes where they are, and what is left of the text; symbols may be cut in other places."""
    if found is None:
        return None
    return [each for each in found if each[0] != "other"], "".join(
        text[start:end] for kind, start, end in found if kind == "other"
    )


def test_comments_strings_and_names_are_those_of_sparks_lexer(spark: SparkSession):
    rnd = random.Random(1)
    texts = ["".join(rnd.choices(PIECES, k=rnd.randint(1, 12))) for _ in range(400)]

    differ = [
        text for text in texts if comparable(text, our_tokens(text)) != comparable(text, spark_tokens(spark, text))
    ]

    assert differ == []
