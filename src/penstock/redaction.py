"""Secrets that were seen, and text without them: messages, logs, events and tracebacks all come here."""

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
# Taking a short secret out of the middle of words would spell it instead of hiding it.
_SHORT = 4
_LINE = 12
# A variable of the environment holds 128 KB; a long secret is hidden line by line as well.
_MOST = 100_000
_lock = threading.Lock()
_known: set[str] = set()
_pattern: re.Pattern[str] | None = None


def remember(secret: str) -> None:
    """From now on this text, however it is escaped, is hidden wherever we print or write."""
    global _pattern
    if not secret.strip() or secret in _known:
        return
    with _lock:
        _known.add(str(secret))
        _pattern = re.compile("|".join(_alternatives()))


def forget() -> None:
    """Begin anew, for a test."""
    global _pattern
    with _lock:
        _known.clear()
        _pattern = None


def redact(text: str) -> str:
    """The text without any secret."""
    return text if _pattern is None else _pattern.sub(_mark, text)


def redacted(value: Any) -> Any:
    """The same for what JSON can hold: texts inside lists and mappings; numbers stay numbers."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redacted(key): redacted(each) for key, each in value.items()}
    return [redacted(each) for each in value] if isinstance(value, list | tuple) else value


def java_pattern() -> str:
    """Every secret as a regular expression for Java's log: letters, digits, backslashes and bars only."""
    with _lock:
        forms = sorted(_long_forms(), key=len)
    # Escaped so that neither Log4j's pattern nor its lookups can read anything in it as their own.
    escaped = ["".join(_escaped(char) for char in form) for form in forms]
    fitting = [each for each, size in zip(escaped, accumulate(map(len, escaped)), strict=True) if size < _MOST]
    return "|".join(reversed(fitting))


def guard() -> None:
    """From now on what Python prints of uncaught errors, and every record of `logging`, is without secrets."""
    sys.excepthook = _print_error
    threading.excepthook = lambda said: _print_error(said.exc_type, said.exc_value, said.exc_traceback)
    logging.setLogRecordFactory(_Record)


class _Record(logging.LogRecord):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.exc_info and self.exc_info[0] is not None:
            # A formatter takes this text when it is there; one that writes its own has nothing to write it from.
            self.exc_text = redact("".join(traceback.format_exception(*self.exc_info)).rstrip("\n"))
            self.exc_info = None

    def getMessage(self) -> str:  # noqa: N802
        return redact(super().getMessage())


def _print_error(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    sys.stderr.write(redact("".join(traceback.format_exception(kind, error, trace))))


def _alternatives() -> list[str]:
    long = sorted(_long_forms(), key=len, reverse=True)
    short = (f"'{re.escape(secret)}'" for secret in sorted(_known) if len(secret) < _SHORT)
    return [*map(re.escape, long), *short]


def _long_forms() -> set[str]:
    whole = {secret for secret in _known if len(secret) >= _SHORT}
    # Of a key in many lines, one line is a secret too.
    lines = {line for secret in whole for line in secret.splitlines() if len(line) >= _LINE and "-----" not in line}
    return {form for secret in whole | lines for form in _forms(secret)}


def _forms(secret: str) -> set[str]:
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
    }


def _mark(found: re.Match[str]) -> str:
    return f"'{HIDDEN}'" if len(found[0]) < _SHORT + 2 and found[0].startswith("'") else HIDDEN


def _escaped(char: str) -> str:
    if char.isascii() and char.isalnum():
        return char
    return "".join(f"\\u{ord(unit):04x}" for unit in _utf16(char))


def _utf16(char: str) -> list[str]:
    data = char.encode("utf-16-be")
    return [chr(int.from_bytes(data[at : at + 2], "big")) for at in range(0, len(data), 2)]
