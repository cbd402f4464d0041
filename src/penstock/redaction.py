"""Redacts known secrets in messages, logs, events and tracebacks."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
from itertools import accumulate
from types import TracebackType
from typing import Any
from urllib.parse import quote

HIDDEN = "***"
# Replacing a short secret inside other words would reveal it instead of hiding it.
_MIN_CHARS = 4
_MIN_LINE_CHARS = 12
# Log4j gets the pattern in an environment variable, which holds 128 KB.
_MAX_PATTERN_CHARS = 100_000
_lock = threading.Lock()
_secrets: set[str] = set()
_pattern: re.Pattern[str] | None = None


def remember(secret: str) -> None:
    """Redact this text from now on, however it is escaped."""
    global _pattern
    if not secret.strip() or secret in _secrets:
        return
    with _lock:
        _secrets.add(str(secret))
        _pattern = re.compile("|".join(_alternatives()))


def forget() -> None:
    """Forget all secrets; for tests."""
    global _pattern
    with _lock:
        _secrets.clear()
        _pattern = None


def redact(text: str) -> str:
    """Replace every known secret in a text."""
    return text if _pattern is None else _pattern.sub(_mask, text)


def redact_values(value: Any) -> Any:
    """Redact the strings inside a JSON value."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact_values(key): redact_values(each) for key, each in value.items()}
    return [redact_values(each) for each in value] if isinstance(value, list | tuple) else value


def java_pattern() -> str:
    """A regular expression for Log4j that matches every secret: letters, digits, backslashes and bars only."""
    with _lock:
        forms = sorted(_long_forms(), key=len)
    # Escaped so that Log4j interprets nothing in it as a pattern or a lookup.
    escaped = ["".join(_escape(char) for char in form) for form in forms]
    fitting = [
        each for each, size in zip(escaped, accumulate(map(len, escaped)), strict=True) if size < _MAX_PATTERN_CHARS
    ]
    return "|".join(reversed(fitting))


def install_hooks() -> None:
    """Redact uncaught errors and every record of `logging` from now on."""
    sys.excepthook = _write_error
    threading.excepthook = lambda args: _write_error(args.exc_type, args.exc_value, args.exc_traceback)
    logging.setLogRecordFactory(_Record)


class _Record(logging.LogRecord):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.exc_info and self.exc_info[0] is not None:
            # Formatters use this text if it is set, and without exc_info they cannot format the original.
            self.exc_text = redact("".join(traceback.format_exception(*self.exc_info)).rstrip("\n"))
            self.exc_info = None

    def getMessage(self) -> str:  # noqa: N802
        return redact(super().getMessage())


def _write_error(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def _alternatives() -> list[str]:
    long = sorted(_long_forms(), key=len, reverse=True)
    short = (f"'{re.escape(secret)}'" for secret in sorted(_secrets) if len(secret) < _MIN_CHARS)
    return [*map(re.escape, long), *short]


def _long_forms() -> set[str]:
    whole = {secret for secret in _secrets if len(secret) >= _MIN_CHARS}
    # A single line of a multi-line key is secret too.
    lines = {
        line for secret in whole for line in secret.splitlines() if len(line) >= _MIN_LINE_CHARS and "-----" not in line
    }
    return {form for secret in whole | lines for form in _forms(secret)}


def _forms(secret: str) -> set[str]:
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
    }


def _mask(found: re.Match[str]) -> str:
    return f"'{HIDDEN}'" if len(found[0]) < _MIN_CHARS + 2 and found[0].startswith("'") else HIDDEN


def _escape(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    return "".join(f"\\u{ord(unit):04x}" for unit in _utf16(char))


def _utf16(char: str) -> list[str]:
    data = char.encode("utf-16-be")
    return [chr(int.from_bytes(data[at : at + 2], "big")) for at in range(0, len(data), 2)]
