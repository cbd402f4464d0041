"""What two tables of rows do not have in common, row by row and cell by cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock.testing.values import Row, same, shown

Mark = Literal["missing", "unexpected", "different", "order", "says"]

_MOST_CHARACTERS = 200


@dataclass(frozen=True)
class Line:
    """One line of a failure; the mark says what kind, and so its colour."""

    mark: Mark
    text: str

    def __str__(self) -> str:
        return self.text if self.mark == "says" else f"{self.mark:<11}{self.text}"


@dataclass(frozen=True)
class Difference:
    """Rows that are expected and not there, there and not expected, or there with other cells."""

    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    different: tuple[tuple[Row, Row], ...] = ()
    order: tuple[Row, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.different or self.order)

    @property
    def lines(self) -> Iterator[Line]:
        """The difference to be read."""
        yield from (Line("different", _cells(wanted, found)) for wanted, found in self.different)
        yield from (Line("missing", shown_row(row)) for row in self.missing)
        yield from (Line("unexpected", shown_row(row)) for row in self.unexpected)
        yield from (Line("order", f"found as row {at}: {shown_row(row)}") for at, row in enumerate(self.order))


def compare(wanted: Sequence[Row], found: Sequence[Row], *, ordered: bool = False) -> Difference:
    """What tells the found rows from the expected ones; nothing if they are the same."""
    if len(wanted) == len(found) and all(map(same, wanted, found)):
        return Difference()
    partner = _matched(wanted, found)
    taken = set(partner.values())
    missing = [row for at, row in enumerate(wanted) if at not in partner]
    unexpected = [row for at, row in enumerate(found) if at not in taken]
    if not missing and not unexpected:
        return Difference(order=tuple(found)) if ordered else Difference()
    pairs = _closest(missing, unexpected)
    return Difference(
        missing=tuple(row for at, row in enumerate(missing) if at not in {left for left, _ in pairs}),
        unexpected=tuple(row for at, row in enumerate(unexpected) if at not in {right for _, right in pairs}),
        different=tuple((missing[left], unexpected[right]) for left, right in pairs),
    )


def shown_row(row: Row) -> str:
    """A row in one line."""
    return "{" + ", ".join(f"{name}: {_cut(shown(value))}" for name, value in row.items()) + "}"


def _matched(wanted: Sequence[Row], found: Sequence[Row]) -> dict[int, int]:
    """Which found row each expected one is: as many pairs as can be, as a loose row fits several."""
    fits = [[at for at, row in enumerate(found) if same(each, row)] for each in wanted]
    owner: dict[int, int] = {}

    def give(left: int, tried: set[int]) -> bool:
        for right in fits[left]:
            if right not in tried:
                tried.add(right)
                if right not in owner or give(owner[right], tried):
                    owner[right] = left
                    return True
        return False

    # The strictest rows choose first, so that loose ones seldom have to give way.
    for left in sorted(range(len(wanted)), key=lambda at: len(fits[at])):
        give(left, set())
    return {left: right for right, left in owner.items()}


def _closest(missing: Sequence[Row], unexpected: Sequence[Row]) -> list[tuple[int, int]]:
    """Pairs of rows that have the most cells in common, and at least one."""
    scores = [
        (_in_common(wanted, found), left, right)
        for left, wanted in enumerate(missing)
        for right, found in enumerate(unexpected)
    ]
    pairs: list[tuple[int, int]] = []
    for score, left, right in sorted(scores, key=lambda each: (-each[0], each[1], each[2])):
        if score and all(left != other and right != another for other, another in pairs):
            pairs.append((left, right))
    return sorted(pairs)


def _in_common(wanted: Row, found: Row) -> int:
    return sum(name in found and same(value, found[name]) for name, value in wanted.items())


def _cells(wanted: Row, found: Row) -> str:
    return "{" + ", ".join(_cell(name, value, found) for name, value in wanted.items()) + "}"


def _cell(name: str, value: object, found: Row) -> str:
    if name in found and same(value, found[name]):
        return f"{name}: {_cut(shown(found[name]))}"
    return f"{name}: expected {_cut(_quoted(value, found.get(name)))}, found {_cut(_quoted(found.get(name), value))}"


def _quoted(value: object, other: object) -> str:
    # '5' and 5 look alike when one is text and the other is not.
    alike = shown(value) == shown(other) and isinstance(value, str)
    return repr(value) if alike else shown(value)


def _cut(text: str) -> str:
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= _MOST_CHARACTERS else line[:_MOST_CHARACTERS] + "..."
