"""What sources, steps and sinks have in common: a name, and a mapping with one kind in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from penstock.load.reading import Reader
from penstock.load.spark_words import suggest_key
from penstock.model import Keys
from penstock.text import join_words, nearest, show

_Made = TypeVar("_Made")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def read_section(reading: Reader, section: str, read: Callable[[Reader, str, Any], _Made | None]) -> tuple[_Made, ...]:
    """Every node of a section that could be made; what is wrong with the others is noted."""
    nodes = reading.document.values.get(section)
    if nodes is None:
        return ()
    if not isinstance(nodes, Mapping):
        says = f"'{section}' is {show(nodes)}, expected a mapping of names"
        reading.found("wrong-type", (section,), says, f"write '{section}:' and below it 'name: ...'")
        return ()
    for name in nodes:
        _check_name(reading, section, name)
    made = (read(reading, name, raw) for name, raw in nodes.items())
    return tuple(node for node in made if node is not None)


def check_names_differ(reading: Reader) -> None:
    """Names become views of SQL, which does not tell upper case from lower."""
    first: dict[str, tuple[str, str]] = {}
    for section in ("sources", "steps", "sinks"):
        nodes = reading.document.values.get(section)
        for name in nodes if isinstance(nodes, Mapping) else ():
            other, their_name = first.setdefault(str(name).lower(), (section, name))
            if (other, their_name) != (section, name):
                where = reading.document.place((other, their_name))
                says = f"{section[:-1]} {name!r} has the name of {other[:-1]} {their_name!r} on line {where.line}"
                reading.found("names-differ", (section, name), says, "give each its own name")


def one_kind(
    reading: Reader,
    raw: Mapping[str, Any],
    kinds: Collection[str],
    settings: Iterable[str],
    keys: Keys,
    who: str = "",
) -> str:
    """The one key that is a kind, or '' after noting what is wrong with the keys."""
    who, settings = who or f"{str(keys[0])[:-1]} {keys[1]!r}", set(settings)
    # Settings first: to know that a word is no kind, every installed package is asked.
    found = [key for key in raw if key not in settings and key in kinds]
    unknown = [key for key in raw if key not in settings and key not in found]
    for key in unknown:
        known = [*sorted(kinds), *settings]
        reading.found("unknown-key", (*keys, key), f"{who} does not know {key!r}", suggest_key(str(key), known))
    if len(found) > 1:
        says = f"{who} is {join_words(found, 'and')} at once"
        reading.found("one-kind", (*keys, found[1]), says, "keep one of them")
    elif not found and not unknown:
        reading.found("one-kind", keys, f"{who} does not say what it is", f"add one of {join_words(sorted(kinds))}")
    return found[0] if len(found) == 1 else ""


def misspelled(raw: Mapping[str, Any], kinds: Iterable[str], settings: Iterable[str]) -> set[str | None]:
    """The settings that unknown keys were probably meant to be."""
    words = [*kinds, *settings]
    return {nearest(str(key), words) for key in raw if key not in words}


def _check_name(reading: Reader, section: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        says = f"{section[:-1]} {show(name)} has a name that SQL cannot use"
        fix = "use letters, digits and '_', at most 64, not starting with a digit"
        reading.found("name", (section, str(name)), says, fix)
