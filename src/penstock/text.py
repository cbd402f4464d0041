"""Words for messages: the nearest one, and lists of them."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 60
_MOST_LISTED = 50


class Waiting(str):
    """A line about something that is waited for; the next one of its kind takes its place."""

    __slots__ = ()


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be."""
    from difflib import get_close_matches  # only a file with a mistake in it pays for this

    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(word[:_MOST].lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """What to do about an unknown word: the nearest known one, or all of them if they are few."""
    words = sorted(known)
    near = nearest(word, words)
    if near is not None:
        return f"did you mean {near!r}?"
    more = [f"one of {len(words) - _MOST_LISTED:,} others"] if len(words) > _MOST_LISTED else []
    return f"use {join_words([*words[:_MOST_LISTED], *more])}" if words else ""


def join_words(words: Iterable[str], last: str = "or") -> str:
    """a, b or c."""
    *first, end = list(words) or ["nothing"]
    return f"{', '.join(first)} {last} {end}" if first else end


def show(value: object) -> str:
    """A value as a message says it; long text is cut, and secrets hide themselves."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        text = repr(value)
        return text if len(text) <= _MOST + 2 else repr(value[:_MOST]) + "..."
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return "a function" if callable(value) else repr(value)
