"""What the condition of a join of two streams says about time, as Spark reads it.

A row of the left side is kept until no row of the right side can match it any more. Spark finds that moment in a
condition `right + a < left + b` whose right column has a watermark: then `left` is above the watermark plus a constant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from penstock.checks.plan import Column, Equality

Resolve = Callable[[exp.Column], Column | None]
IsRight = Callable[[exp.Column], bool | None]
_ORDERED = {exp.LT: False, exp.LTE: False, exp.GT: True, exp.GTE: True}


class _UnknownError(Exception):
    """A column cannot be resolved."""


def read_condition(condition: Any, resolve: Resolve, is_right: IsRight) -> Equality | None:
    """What a condition says; None if a column of it is unknown."""
    if condition is None:
        return Equality()
    found = Equality()
    try:
        for part in _conjuncts(condition):
            found = _merge(found, _read(part, resolve, is_right))
    except _UnknownError:
        return None
    return found


def _conjuncts(condition: Any) -> list[Any]:
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return [part for side in (condition.left, condition.right) for part in _conjuncts(side)]
    return [condition]


def _merge(one: Equality, other: Equality) -> Equality:
    return Equality(
        one.has_keys or other.has_keys,
        one.has_time_key or other.has_time_key,
        one.ends_left or other.ends_left,
        one.ends_right or other.ends_right,
    )


def _read(part: Any, resolve: Resolve, is_right: IsRight) -> Equality:
    if isinstance(part, exp.EQ | exp.NullSafeEQ):
        sides = [_sides(side, is_right) for side in (part.left, part.right)]
        if sorted(map(tuple, sides)) != [(False,), (True,)]:
            return Equality()
        plain = [side.unnest() for side in (part.left, part.right)]
        times = [resolve(side) for side in plain if isinstance(side, exp.Column)]
        if None in times or any(time is not None and time.has_watermark is None for time in times):
            raise _UnknownError
        return Equality(True, any(time.has_watermark for time in times if time))
    bounds: list[tuple[Any, Any]] = []
    if type(part) in _ORDERED:
        bounds = [(part.right, part.left) if _ORDERED[type(part)] else (part.left, part.right)]
    elif isinstance(part, exp.Between):
        bounds = [(part.args["low"], part.this), (part.this, part.args["high"])]
    return Equality(
        ends_left=any(_ends(low, high, resolve, is_right, right=False) for low, high in bounds),
        ends_right=any(_ends(low, high, resolve, is_right, right=True) for low, high in bounds),
    )


def _sides(expression: Any, is_right: IsRight) -> list[bool]:
    found = {is_right(column) for column in expression.find_all(exp.Column)}
    if None in found:
        raise _UnknownError
    return sorted(side for side in found if side is not None)


def _ends(low: Any, high: Any, resolve: Resolve, is_right: IsRight, *, right: bool) -> bool:
    """Whether `low < high` bounds the rows of one side from below by the watermark of the other."""
    terms = [*_terms(low, negative=False), *_terms(high, negative=True)]
    if any(column is None for column, _ in terms):
        # Something that Spark does not take for a sum of times.
        return False
    columns = [(column, negative) for column, negative in terms if isinstance(column, exp.Column)]
    for column, _ in columns:
        if is_right(column) is None:
            raise _UnknownError
    own = [negative for column, negative in columns if is_right(column) is right]
    others = [column for column, _ in columns if is_right(column) is not right]
    if own != [True] or len(others) > 1 or len(terms) == 1:
        return False
    times = [resolve(column) for column in others]
    if any(time is None or time.has_watermark is None for time in times):
        raise _UnknownError
    return bool(times) and all(time is not None and time.has_watermark for time in times)


def _terms(expression: Any, *, negative: bool) -> list[tuple[Any, bool]]:
    """Columns and constants of a sum, with their signs; (None, ...) for anything else."""
    expression = expression.unnest()
    if isinstance(expression, exp.Add | exp.Sub):
        other = negative if isinstance(expression, exp.Add) else not negative
        return [*_terms(expression.left, negative=negative), *_terms(expression.right, negative=other)]
    if isinstance(expression, exp.Neg):
        return _terms(expression.this, negative=not negative)
    if isinstance(expression, exp.Column | exp.Literal):
        return [(expression, negative)]
    if isinstance(expression, exp.Interval):
        unit = str(expression.args.get("unit") or expression.this or "").lower()
        return [(None if "month" in unit or "year" in unit else expression, negative)]
    if isinstance(expression, exp.Cast) and expression.to.this.name in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"):
        return _terms(expression.this, negative=negative)
    return [(None, negative)]
