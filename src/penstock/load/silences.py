"""Finds the comments that silence a finding: `# penstock: allow RULE because REASON`, and with `--` in SQL.

A comment at the end of a line is about that line. A comment on a line of its own is about the line below it; comments
may stand above each other. Text in quotes and in blocks (`|`, `>`) has no YAML comments.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from penstock.model import Keys, Location, Silence
from penstock.sql import Token, tokenize

_ALLOW = re.compile(r"\s*penstock:\s*allow\b\s*(?P<rule>\S*)\s*(?:because\b\s*(?P<reason>.*))?")
_MARK = re.compile(r"penstock:\s*allow\b")
_HASH = re.compile(r"(?:^|(?<=\s))#")
_BLOCKS = ("|", ">")


def may_have_silences(text: str) -> bool:
    """Whether a text is worth a search."""
    return _MARK.search(text) is not None


def find_silences(
    text: str, file: str, places: Mapping[Keys, Location], parse: Callable[[str], Iterable[Any]]
) -> tuple[Silence, ...]:
    """The silences of a valid YAML text, in file order; `parse` gives its events."""
    lines = text.splitlines()
    scalars = [event for event in parse(text) if isinstance(event, yaml.ScalarEvent)]
    found = [*_in_yaml(lines, file, scalars), *_in_sql(lines, file, _of_steps(scalars, places))]
    return tuple(sorted(found, key=lambda silence: silence.at))


def _in_yaml(lines: Sequence[str], file: str, scalars: Sequence[Any]) -> Iterator[Silence]:
    below = _find_lines_below(lines, "#")
    for number, line in enumerate(lines):
        column = _find_comment(line, number, scalars) if _MARK.search(line) else None
        if column is not None:
            yield from _parse(line[column + 1 :], Location(file, number + 1, column + 1), lines, below)


def _find_comment(line: str, number: int, scalars: Sequence[Any]) -> int | None:
    starts = (match.start() for match in _HASH.finditer(line))
    return next((start for start in starts if not _is_text(scalars, number, start)), None)


def _is_text(scalars: Sequence[Any], line: int, column: int) -> bool:
    """Whether a position is inside a scalar; they are in file order and do not overlap."""
    at = bisect_right(scalars, (line, column), key=lambda each: _position(each.start_mark)) - 1
    if at < 0:
        return False
    scalar = scalars[at]
    # A comment may follow the `|` of a block.
    is_header = scalar.style in _BLOCKS and line == scalar.start_mark.line
    return not is_header and (line, column) < _position(scalar.end_mark)


def _of_steps(scalars: Iterable[Any], places: Mapping[Keys, Location]) -> Iterator[Any]:
    """The texts below `steps`, which are SQL if they have a comment of SQL."""
    starts = sorted(((at.line - 1, at.column - 1), keys[0]) for keys, at in places.items() if len(keys) == 1)
    for scalar in scalars:
        if may_have_silences(scalar.value):
            at = bisect_right(starts, _position(scalar.start_mark), key=lambda start: start[0]) - 1
            if at >= 0 and starts[at][1] == "steps":
                yield scalar


def _position(mark: Any) -> tuple[int, int]:
    return mark.line, mark.column


def _in_sql(lines: Sequence[str], file: str, scalars: Iterable[Any]) -> Iterator[Silence]:
    below = _find_lines_below(lines, "--")
    for scalar in scalars:
        first = _first_line(scalar)
        for token in _comments(scalar.value) if first else ():
            number = first + scalar.value.count("\n", 0, token.start)
            at = Location(file, number, lines[number - 1].rfind(token.text.strip()) + 1)
            yield from _parse(token.text[2:], at, lines, below)


def _first_line(scalar: Any) -> int:
    """The line of a text's first line; 0 if its lines are not those of the file."""
    if scalar.style == "|":
        return int(scalar.start_mark.line) + 2
    return int(scalar.start_mark.line) + 1 if scalar.start_mark.line == scalar.end_mark.line else 0


def _comments(text: str) -> list[Token]:
    try:
        return [token for token in tokenize(text) if token.type == "comment" and token.text.startswith("--")]
    except ValueError:
        # A quote or a comment is not closed, which the rule sql-is-understood reports.
        return []


def _find_lines_below(lines: Sequence[str], mark: str) -> list[int]:
    """For each line, the number of the next one that is not only a comment."""
    below = [len(lines) + 1] * (len(lines) + 1)
    for number in range(len(lines) - 1, -1, -1):
        is_comment = number + 1 < len(lines) and lines[number + 1].lstrip().startswith(mark)
        below[number] = below[number + 1] if is_comment else number + 2
    return below


def _parse(comment: str, at: Location, lines: Sequence[str], below: Sequence[int]) -> Iterator[Silence]:
    match = _ALLOW.match(comment)
    if match is not None:
        is_alone = not lines[at.line - 1][: at.column - 1].strip()
        line = below[at.line - 1] if is_alone else at.line
        yield Silence(match["rule"], (match["reason"] or "").strip(), at, line)
