"""A value of a row as JSON can hold it and people can read it."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

_MOST_TEXT = 2000
_MOST_ITEMS = 100


def plain_value(value: Any) -> Any:
    """Numbers and truth stay; everything else becomes text, lists and mappings, cut where they are very long."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Browsers hold whole numbers up to 2^53 exactly.
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds").removesuffix(".000")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return _cut("0x" + bytes(value[: _MOST_TEXT // 2]).hex())
    return _nested(value)


def _nested(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: plain_value(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {_cut(str(key)): plain_value(each) for key, each in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value[:_MOST_ITEMS]]
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
