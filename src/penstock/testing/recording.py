"""Formats tests as YAML, with the rows found as the expected rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from penstock.load.reader import parse_scalar
from penstock.options import Secret
from penstock.testing.difference import format_value
from penstock.testing.result import Result

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def format_recording(results: Iterable[Result], sink: str) -> str:
    """A file of tests that pass with the current output; review it before use."""
    tests = [_test(result, sink) for result in results]
    return "\n".join(["tests:", *(line for test in tests for line in test)]) + "\n"


def _test(result: Result, sink: str) -> list[str]:
    raw = dict(result.case.raw)
    expect = {**(raw.get("expect") or {}), sink: result.written.get(sink, ())}
    lines = [f"  - name: {_flow(raw.pop('name', result.case.name))}"]
    lines += _tables("given", raw.pop("given", {}))
    raw.pop("expect", None)
    lines += _tables("expect", expect)
    return lines + [f"    {key}: {_flow(value)}" for key, value in raw.items()]


def _tables(key: str, tables: Mapping[str, Any]) -> list[str]:
    lines = [f"    {key}:"]
    for name, table in tables.items():
        if not table:
            lines.append(f"      {_key(name)}: []")
            continue
        lines.append(f"      {_key(name)}:")
        for part in table:
            lines += _batch(part) if isinstance(part, list | tuple) else [f"        - {_flow(part)}"]
    return lines


def _batch(rows: Iterable[Any]) -> list[str]:
    texts = [_flow(row) for row in rows]
    if not texts:
        return ["        - []"]
    return [f"        {'- -' if at == 0 else '  -'} {text}" for at, text in enumerate(texts)]


def _flow(value: Any) -> str:
    if isinstance(value, Secret):
        return json.dumps("***")
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(name)}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float):
        return _number(value)
    return json.dumps(format_value(value) if isinstance(value, date | Decimal | bytes | bytearray) else str(value))


def _number(value: float) -> str:
    return {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}.get(repr(value), repr(value))


def _key(name: str) -> str:
    plain = _PLAIN_KEY.fullmatch(name) and isinstance(parse_scalar(name), str)
    return name if plain else json.dumps(name)
