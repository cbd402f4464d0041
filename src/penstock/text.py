"""Helpers for messages: suggestions, lists and values."""

from __future__ import annotations

from collections.abc import Iterable

_MAX_CHARS = 60
_MAX_LISTED = 50
_JAAS_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


class Waiting(str):
    """A status line about a wait; the next one replaces it on a terminal."""

    __slots__ = ()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is closest to a misspelled one; None if none is close."""
    from difflib import get_close_matches  # imported only when there is a mistake

    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(word[:_MAX_CHARS].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for an unknown word: the nearest known one, or a list of them."""
    words = sorted(known)
    near = nearest(word, words)
    if near is not None:
        return f"did you mean {near!r}?"
    more = [f"one of {len(words) - _MAX_LISTED:,} others"] if len(words) > _MAX_LISTED else []
    return f"use {join_words([*words[:_MAX_LISTED], *more])}" if words else ""


def join_words(words: Iterable[str], last: str = "or") -> str:
    """a, b or c."""
    *first, end = list(words) or ["nothing"]
    return f"{', '.join(first)} {last} {end}" if first else end


def show(value: object) -> str:
    """Format a value for a message; long text is cut, and secrets are masked."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = repr(value)
        return text if len(text) <= _MAX_CHARS + 2 else repr(value[:_MAX_CHARS]) + "..."
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "a function" if callable(value) else repr(value)


def show_difference(old: str, new: str) -> tuple[str, str]:
    """The parts of two texts from a little before the place where they begin to differ."""
    same = next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    start = max(0, same - _MAX_CHARS // 2)
    return _excerpt(old, start), _excerpt(new, start)


def _excerpt(text: str, start: int) -> str:
    part = text[start : start + 2 * _MAX_CHARS]
    before, after = "..." if start else "", "..." if start + len(part) < len(text) else ""
    return f"{before}{part}{after}" if text else "nothing"


def printable(text: str) -> str:
    """The text in one line without control characters, safe to print to a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def quote_jaas(text: str) -> str:
    """A quoted string of a JAAS configuration, whose parser ends one at a bare quote or line break."""
    return '"' + "".join(_JAAS_ESCAPES.get(char, char) for char in text) + '"'
