"""The difference of two tables, row by row and cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.testing.values import Row, format_value, same

Mark = Literal["missing", "unexpected", "different", "order", "says"]

_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Line:
    """One line of a failure; the mark is its kind, and sets its colour."""

    mark: Mark
    text: str

    def __str__(self) -> str:
        return self.text if self.mark == "says" else f"{self.mark:<11}{self.text}"


@dataclass(frozen=True)
class Difference:
    """Rows that are missing, unexpected, or have different cells."""

    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    different: tuple[tuple[Row, Row], ...] = ()
    order: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.different or self.order)

    @property
    def lines(self) -> Iterator[Line]:
        """The difference as lines."""
        yield from (Line("different", _cells(expected, found)) for expected, found in self.different)
        yield from (Line("missing", format_row(row)) for row in self.missing)
        yield from (Line("unexpected", format_row(row)) for row in self.unexpected)
        yield from (Line("order", f"found as row {at}: {format_row(row)}") for at, row in enumerate(self.order))


def compare(expected: Sequence[Row], found: Sequence[Row], *, ordered: bool = False) -> Difference:
    """The difference between expected and found rows; falsy if they are equal."""
    if len(expected) == len(found) and all(map(same, expected, found)):
        return Difference()
    partner = _match(expected, found)
    taken = set(partner.values())
    missing = [row for at, row in enumerate(expected) if at not in partner]
    unexpected = [row for at, row in enumerate(found) if at not in taken]
    if not missing and not unexpected:
        return Difference(order=tuple(found)) if ordered else Difference()
    pairs = _closest(missing, unexpected)
    return Difference(
        missing=tuple(row for at, row in enumerate(missing) if at not in {left for left, _ in pairs}),
        unexpected=tuple(row for at, row in enumerate(unexpected) if at not in {right for _, right in pairs}),
        different=tuple((missing[left], unexpected[right]) for left, right in pairs),
    )


def format_row(row: Row) -> str:
    """A row in one line."""
    return "{" + ", ".join(f"{name}: {_cut(format_value(value))}" for name, value in row.items()) + "}"


def _match(expected: Sequence[Row], found: Sequence[Row]) -> dict[int, int]:
    """The found row of each expected row: a maximum matching, because a row with few columns can match several."""
    fits = [[at for at, row in enumerate(found) if same(each, row)] for each in expected]
    owner: dict[int, int] = {}

    def assign(left: int, tried: set[int]) -> bool:
        for right in fits[left]:
            if right not in tried:
                tried.add(right)
                if right not in owner or assign(owner[right], tried):
                    owner[right] = left
                    return True
        return False

    # Rows with the fewest matches first, to avoid reassignments.
    for left in sorted(range(len(expected)), key=lambda at: len(fits[at])):
        assign(left, set())
    return {left: right for right, left in owner.items()}


def _closest(missing: Sequence[Row], unexpected: Sequence[Row]) -> list[tuple[int, int]]:
    """Pairs of rows with the most cells in common, at least one."""
    scores = [
        (_in_common(expected, found), left, right)
        for left, expected in enumerate(missing)
        for right, found in enumerate(unexpected)
    ]
    pairs: list[tuple[int, int]] = []
    for score, left, right in sorted(scores, key=lambda each: (-each[0], each[1], each[2])):
        if score and all(left != other and right != another for other, another in pairs):
            pairs.append((left, right))
    return sorted(pairs)


def _in_common(expected: Row, found: Row) -> int:
    return sum(name in found and same(value, found[name]) for name, value in expected.items())


def _cells(expected: Row, found: Row) -> str:
    return "{" + ", ".join(_cell(name, value, found) for name, value in expected.items()) + "}"


def _cell(name: str, value: object, found: Row) -> str:
    if name in found and same(value, found[name]):
        return f"{name}: {_cut(format_value(found[name]))}"
    return f"{name}: expected {_cut(_quote(value, found.get(name)))}, found {_cut(_quote(found.get(name), value))}"


def _quote(value: object, other: object) -> str:
    # Tells the text '5' from the number 5.
    alike = format_value(value) == format_value(other) and isinstance(value, str)
    return repr(value) if alike else format_value(value)


def _cut(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + "..."
