"""Parses unquoted YAML scalars: the core schema of YAML 1.2, without octal and hexadecimal numbers."""

from __future__ import annotations

import re

_WORDS: dict[str, bool | float | None] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
    ".nan": float("nan"),
}
# 007, 1_000, 0x1F and 12:30 stay text: a code or a time is not a number.
_INT = re.compile(r"[-+]?(0|[1-9][0-9]{0,300})")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]{0,300})(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")


def parse_scalar(text: str) -> str | int | float | bool | None:
    """Parse an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
