"""Reads what sources, steps and sinks share: a name, and a mapping with exactly one kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from penstock.load.reader import Reader
from penstock.load.spark_names import suggest_key
from penstock.model import Keys
from penstock.text import join_words, nearest, show

_Node = TypeVar("_Node")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def read_section(reader: Reader, section: str, read: Callable[[Reader, str, Any], _Node | None]) -> tuple[_Node, ...]:
    """Read the nodes of a section; invalid ones are reported and left out."""
    nodes = reader.document.values.get(section)
    if nodes is None:
        return ()
    if not isinstance(nodes, Mapping):
        says = f"'{section}' is {show(nodes)}, expected a mapping of names"
        reader.report("wrong-type", (section,), says, f"write '{section}:' and below it 'name: ...'")
        return ()
    for name in nodes:
        _check_name(reader, section, name)
    built = (read(reader, name, raw) for name, raw in nodes.items())
    return tuple(node for node in built if node is not None)


def check_unique_names(reader: Reader) -> None:
    """Report names that differ only in case: they become views, and SQL ignores case."""
    first: dict[str, tuple[str, str]] = {}
    for section in ("sources", "steps", "sinks"):
        nodes = reader.document.values.get(section)
        for name in nodes if isinstance(nodes, Mapping) else ():
            other, their_name = first.setdefault(str(name).lower(), (section, name))
            if (other, their_name) != (section, name):
                where = reader.document.place((other, their_name))
                says = f"{section[:-1]} {name!r} has the same name as {other[:-1]} {their_name!r} on line {where.line}"
                reader.report("names-differ", (section, name), says, "give each its own name")


def read_kind(
    reader: Reader,
    raw: Mapping[str, Any],
    kinds: Collection[str],
    settings: Iterable[str],
    keys: Keys,
    who: str = "",
) -> str:
    """Find the one key that is a kind; '' after reporting what is wrong with the keys."""
    who, settings = who or f"{str(keys[0])[:-1]} {keys[1]!r}", set(settings)
    # Settings first, because testing whether a word is a kind scans the entry points of every installed package.
    found = [key for key in raw if key not in settings and key in kinds]
    unknown = [key for key in raw if key not in settings and key not in found]
    for key in unknown:
        known = [*sorted(kinds), *settings]
        reader.report("unknown-key", (*keys, key), f"{who}: unknown key {key!r}", suggest_key(str(key), known))
    if len(found) > 1:
        says = f"{who} is {join_words(found, 'and')} at once"
        reader.report("one-kind", (*keys, found[1]), says, "keep one of them")
    elif not found and not unknown:
        reader.report("one-kind", keys, f"{who} has no kind", f"add one of {join_words(sorted(kinds))}")
    return found[0] if len(found) == 1 else ""


def guess_keys(raw: Mapping[str, Any], kinds: Iterable[str], settings: Iterable[str]) -> set[str | None]:
    """The known keys that unknown ones are probably meant to be."""
    words = [*kinds, *settings]
    return {nearest(str(key), words) for key in raw if key not in words}


def _check_name(reader: Reader, section: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        says = f"{section[:-1]} {show(name)} has a name that SQL cannot use"
        fix = "use letters, digits and '_', at most 64, not starting with a digit"
        reader.report("name", (section, str(name)), says, fix)
