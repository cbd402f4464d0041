"""What a file says before it is a pipeline, and the findings made on the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.model import Finding, Keys, Location, closest
from penstock.options import Secret


class Unset(str):
    """Text with a `${...}` that could not be replaced; nothing more needs to be said about it."""

    __slots__ = ()


@dataclass(frozen=True)
class Document:
    """Plain values, and where each of them is written.

    A builder makes one from Python values: `places` then holds call sites, and `()` is the file itself.
    """

    values: Mapping[str, Any]
    file: str
    folder: str = "."
    places: Mapping[Keys, Location] = field(default_factory=dict)
    texts: Mapping[Keys, Location] = field(default_factory=dict)
    spelled: Mapping[Keys, str] = field(default_factory=dict)

    def place(self, keys: Keys) -> Location:
        """Where the key at `keys` is written; the nearest known place around it otherwise."""
        return closest(self.places, keys) or Location(self.file)

    def text_place(self, keys: Keys) -> Location:
        """Where the text at `keys` begins: for a block, the line after its `|`."""
        return self.texts.get(keys) or self.place(keys)


@dataclass(frozen=True)
class Reader:
    """A document and everything found wrong with it so far."""

    document: Document
    findings: list[Finding] = field(default_factory=list)

    @cached_property
    def stream_names(self) -> dict[str, str]:
        """The names of sources and steps, by their lower case."""
        sections = (self.document.values.get(section) for section in ("sources", "steps"))
        return {str(name).lower(): str(name) for nodes in sections if isinstance(nodes, Mapping) for name in nodes}

    def found(self, rule: str, keys: Keys, says: str, fix: str = "") -> None:
        """Note what is wrong at `keys`."""
        at = self.document.place(keys)
        self.findings.append(Finding(rule=rule, at=at, says=says, fix=fix))


def in_file_order(findings: list[Finding]) -> list[Finding]:
    """The findings by line and column."""
    return sorted(findings, key=lambda finding: finding.at)


def as_text(value: object) -> str:
    """A scalar as Spark takes it: true and false in lower case; a secret stays one."""
    if isinstance(value, Secret):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
