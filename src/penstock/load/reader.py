"""A parsed document, and the reader that collects findings about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.load.text_map import LiteralText
from penstock.model import Finding, Keys, Location, Silence, TextMap, closest
from penstock.options import Secret


class Unset(str):
    """Text with an unresolved `${...}`, which is reported already."""

    __slots__ = ()


@dataclass(frozen=True)
class Document:
    """Plain values with the location of each.

    For a pipeline built in Python, `places` holds call sites, and `()` is the file itself.
    """

    values: Mapping[str, Any]
    file: str
    folder: str = "."
    places: Mapping[Keys, Location] = field(default_factory=dict)
    texts: Mapping[Keys, TextMap] = field(default_factory=dict)
    aliases: Mapping[Keys, Keys] = field(default_factory=dict)
    """Of each `*name`, the keys of the value with `&name`."""
    spelled: Mapping[Keys, str] = field(default_factory=dict)
    silences: tuple[Silence, ...] = ()

    def place(self, keys: Keys) -> Location:
        """The location of the key at `keys`, or of the closest enclosing one."""
        return closest(self.places, keys) or Location(self.file)

    def text_at(self, keys: Keys, text: str) -> TextMap:
        """Where the characters of the text at `keys` are; of an alias, where its anchor is."""
        found = self.texts.get(keys)
        while found is None and (anchor := self._anchor(keys)) is not None:
            keys = anchor
            found = self.texts.get(keys)
        return found or LiteralText(self.place(keys), text)

    def _anchor(self, keys: Keys) -> Keys | None:
        """The same keys below the anchor of the alias that they are below; None if they are below none."""
        ends = (end for end in range(len(keys), 0, -1) if keys[:end] in self.aliases)
        return next(((*self.aliases[keys[:end]], *keys[end:]) for end in ends), None)


@dataclass(frozen=True)
class Reader:
    """A document and its findings so far."""

    document: Document
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def stream_names(self) -> dict[str, str]:
        """The names of sources and steps, by lower case."""
        sections = (self.document.values.get(section) for section in ("sources", "steps"))
        return {str(name).lower(): str(name) for nodes in sections if isinstance(nodes, Mapping) for name in nodes}

    def report(self, rule: str, keys: Keys, says: str, fix: str = "", at: Location | None = None) -> None:
        """Add a finding at `keys`, or at an exact place of their value."""
        at = at or self.document.place(keys)
        self.findings.append(Finding(rule=rule, at=at, says=says, fix=fix))


def sort_by_location(findings: list[Finding]) -> list[Finding]:
    """Sort findings by line and column."""
    return sorted(findings, key=lambda finding: finding.at)


def to_text(value: object) -> str:
    """Convert a scalar to the text that Spark expects: true and false in lower case; a secret stays a secret."""
    if isinstance(value, Secret):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


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
