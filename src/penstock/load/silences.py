"""Finds the comments that silence a finding: `# penstock: allow RULE because REASON`, and with `--` in SQL.

A comment at the end of a line is about that line. A comment on a line of its own is about the line below it; comments
may stand above each other. Text in quotes and in blocks (`|`, `>`) has no YAML comments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from penstock.model import Keys, Location, Silence
from penstock.sql import tokenize

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
    for number, line in enumerate(lines):
        column = _find_comment(line, number, scalars) if _MARK.search(line) else None
        if column is not None:
            at = Location(file, number + 1, column + 1)
            yield from _parse(line[column + 1 :], at, lines, "#")


def _find_comment(line: str, number: int, scalars: Sequence[Any]) -> int | None:
    starts = (match.start() for match in _HASH.finditer(line))
    return next((start for start in starts if not any(_contains(each, number, start) for each in scalars)), None)


def _contains(scalar: Any, line: int, column: int) -> bool:
    start, end = scalar.start_mark, scalar.end_mark
    if scalar.style in _BLOCKS and line == start.line:
        # A comment may follow the `|`.
        return False
    return bool((start.line, start.column) <= (line, column) < (end.line, end.column))


def _of_steps(scalars: Iterable[Any], places: Mapping[Keys, Location]) -> Iterator[Any]:
    """The texts below `steps`, which are SQL if they have a comment of SQL."""
    starts = sorted(((at.line, at.column), keys[0]) for keys, at in places.items() if len(keys) == 1)
    for scalar in scalars:
        here = (scalar.start_mark.line + 1, scalar.start_mark.column + 1)
        sections = [key for start, key in starts if start < here]
        if sections and sections[-1] == "steps" and may_have_silences(scalar.value):
            yield scalar


def _in_sql(lines: Sequence[str], file: str, scalars: Iterable[Any]) -> Iterator[Silence]:
    for scalar in scalars:
        first = _first_line(scalar)
        for token in _comments(scalar.value) if first else ():
            number = first + token.line - 1
            at = Location(file, number, lines[number - 1].find("--") + 1)
            yield from _parse(token.text[2:], at, lines, "--")


def _first_line(scalar: Any) -> int:
    """The line of a text's first line; 0 if its lines are not those of the file."""
    if scalar.style == "|":
        return int(scalar.start_mark.line) + 2
    return int(scalar.start_mark.line) + 1 if scalar.start_mark.line == scalar.end_mark.line else 0


def _comments(text: str) -> list[Any]:
    try:
        return [token for token in tokenize(text) if token.type == "comment" and token.text.startswith("--")]
    except ValueError:
        # A quote or a comment is not closed, which the rule sql-is-understood reports.
        return []


def _parse(comment: str, at: Location, lines: Sequence[str], mark: str) -> Iterator[Silence]:
    match = _ALLOW.match(comment)
    if match is None:
        return
    line = at.line
    if not lines[line - 1][: at.column - 1].strip():
        line += 1
        while line <= len(lines) and lines[line - 1].lstrip().startswith(mark):
            line += 1
    yield Silence(match["rule"], (match["reason"] or "").strip(), at, line)
