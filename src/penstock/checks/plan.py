"""What Spark's streaming checker sees of a query, known without Spark: a small plan of each stream.

A plan has the shape of Spark's logical plan as far as the checker asks about it: which operators there are, which of
them read a stream, and which columns carry a watermark. What cannot be known is an operator `unknown`, or columns that
are None; a rule that would need them says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from penstock.checks.ddl import Type
from penstock.model import Location, Step

Operator = Literal[
    "scan", "project", "filter", "aggregate", "distinct", "join", "union", "except", "intersect", "sort", "limit",
    "offset", "sample", "over", "subquery", "dedupe", "stateful", "watermark", "cte", "generate", "unknown",
]  # fmt: skip


_AGGREGATIONS: tuple[Operator, ...] = ("aggregate", "distinct")
_numbers = count()


@dataclass(frozen=True)
class Column:
    """A column of a plan."""

    name: str
    has_watermark: bool | None = False
    """Whether the watermark is on it: a plain column, renamed or not, or a time window over one; None if unknown."""
    is_session: bool = False
    """Whether it is a session window."""
    type: Type | None = None
    """None if unknown."""
    times: frozenset[int] = field(default=frozenset(), compare=False)
    """The identity of a column with a watermark, which it keeps when it is selected or renamed."""

    def __post_init__(self) -> None:
        if self.has_watermark and not self.times:
            object.__setattr__(self, "times", frozenset({next(_numbers)}))

    def renamed(self, name: str) -> Column:
        """The same column under another name, which does not change what Spark knows of it."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Equality:
    """What the condition of a join of two streams says about time."""

    has_keys: bool = False
    """Whether rows are joined by an equality."""
    has_time_key: bool = False
    """Whether one of the equal columns has a watermark."""
    ends_left: bool = False
    """Whether a bound tells when a row of the left side can no longer be joined."""
    ends_right: bool = False


@dataclass(frozen=True)
class SqlPlace:
    """A place in the SQL of a step: it is looked for only if a finding needs it."""

    step: Step
    find_offset: Callable[[], int]


@dataclass(frozen=True, eq=False)
class Plan:
    """An operator and those below it."""

    operator: Operator
    place: Location | SqlPlace
    step: str = ""
    children: tuple[Plan, ...] = ()
    columns: tuple[Column, ...] | None = None
    """What it returns; None if that is unknown."""
    streams: bool = False
    """Whether its rows keep coming."""
    keys: tuple[Column, ...] | None = ()
    """Of an aggregation: what it groups by, as far as these are columns or windows; None if unknown."""
    side: str = ""
    """Of a join: inner, cross, left, right, full, semi or anti."""
    on: Equality | None = None
    says: str = ""
    """What the user wrote, where a rule shows it."""
    says_place: SqlPlace | None = None
    """Where that is, if it is not where the operator is."""
    instead: str = ""
    """What to write instead of an operator that streams do not have, where that is known."""
    calls: frozenset[str] = frozenset()
    """The functions that its own expressions call, in lower case."""
    mode: str = ""
    """Of a stateful operator: the output mode that it needs, if only one."""
    uses: frozenset[int] = frozenset()
    """The columns with a watermark that the condition of a join or the keys of an aggregation need."""

    has_aggregation: bool = field(init=False)
    """Whether it is, or is above, an aggregation over a stream."""
    is_known: bool = field(init=False)
    """Whether nothing of it is unknown."""

    def __post_init__(self) -> None:
        own = self.streams and self.operator in _AGGREGATIONS
        object.__setattr__(self, "has_aggregation", own or any(child.has_aggregation for child in self.children))
        object.__setattr__(
            self, "is_known", self.operator != "unknown" and all(each.is_known for each in self.children)
        )

    @property
    def at(self) -> Location:
        """Where the user wrote it."""
        return _locate(self.place)

    @property
    def says_at(self) -> Location:
        """Where the user wrote what a rule shows."""
        return _locate(self.says_place or self.place)

    def walk(self) -> Iterator[Plan]:
        """This operator and all below it, from the top, each once: a stream may be read in many places."""
        waiting, seen = [self], {id(self)}
        while waiting:
            plan = waiting.pop()
            yield plan
            for child in reversed(plan.children):
                if id(child) not in seen:
                    seen.add(id(child))
                    waiting.append(child)

    def find(self, *operators: Operator) -> list[Plan]:
        """Some operators, itself included, from the top."""
        return [plan for plan in self.walk() if plan.operator in operators]

    @property
    def aggregations(self) -> list[Plan]:
        """The aggregations over a stream; DISTINCT is one."""
        return [plan for plan in self.find(*_AGGREGATIONS) if plan.streams]

    @property
    def is_stateful(self) -> bool:
        """Whether this operator itself keeps state that a watermark may drop."""
        if not self.streams:
            return False
        if self.operator == "join":
            return all(child.streams for child in self.children)
        return self.operator in ("aggregate", "distinct", "stateful") or (
            self.operator == "dedupe" and (self.mode == "watermark" or _has_watermark(self.keys))
        )

    def has(self, name: str) -> bool:
        """Whether it has a column of a name."""
        return any(column.name.lower() == name.lower() for column in self.columns or ())

    def column(self, name: str) -> Column | None:
        """The column of a name; None if there is none, or more than one."""
        found = [column for column in self.columns or () if column.name.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


def _locate(place: Location | SqlPlace) -> Location:
    return place.step.locate(place.find_offset()) if isinstance(place, SqlPlace) else place


def _has_watermark(columns: tuple[Column, ...] | None) -> bool:
    return any(column.has_watermark for column in columns or ())


@dataclass(frozen=True)
class Mistake:
    """What Spark would refuse in the text of a query, and where."""

    rule: str
    start: int
    says: str
    fix: str
