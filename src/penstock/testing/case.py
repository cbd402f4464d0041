"""One parsed test of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from penstock.model import Keys, Location
from penstock.testing.difference import Row

Moment = Literal["after_write", "before_commit"]
MOMENTS: tuple[Moment, ...] = ("after_write", "before_commit")

Given = Row | str | bytes
Batch = Mapping[str, tuple[Given, ...]]


@dataclass(frozen=True)
class Expected:
    """What a sink must write: the rows of each batch, or all rows in the end."""

    tables: tuple[tuple[Row, ...], ...]
    per_batch: bool
    keys: Keys

    def place(self, batch: int, row: int) -> Keys:
        """The keys of a row in the file."""
        return (*self.keys, batch, row) if self.per_batch else (*self.keys, row)


@dataclass(frozen=True)
class Case:
    """The rows to feed, batch by batch, and the expected results."""

    name: str
    at: Location
    number: int
    batches: tuple[Batch, ...]
    expect: Mapping[str, Expected] = field(default_factory=dict)
    ordered: bool = False
    bad_records: Mapping[str, int] = field(default_factory=dict)
    late_rows: Mapping[str, int] = field(default_factory=dict)
    state_rows: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    restarts: frozenset[int] = frozenset()
    crashes: Mapping[int, Moment] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The test as written in the file."""
