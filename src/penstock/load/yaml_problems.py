"""What a YAML parser complains about, in plain words."""

from __future__ import annotations

import yaml

from penstock.model import Finding, Location

_BRACKET = "a bracket is not closed, or a comma is missing"
_WORDS = {
    "mapping values are not allowed": (
        "a ': ' stands where it cannot",
        "quote the text that contains it, or indent the key",
    ),
    "did not find expected key": ("the indentation does not fit", "align this key with its neighbours"),
    "did not find expected '-' indicator": ("the indentation does not fit", "start each item of the list with '- '"),
    "could not find expected ':'": ("a key has no ':'", "write 'key: value', or quote the text"),
    "expected ',' or ']'": (_BRACKET, "close the list with ']'"),
    "expected ',' or '}'": (_BRACKET, "close the mapping with '}'"),
    "found unexpected end of stream": ("a quote is opened and never closed", "close it"),
    "unknown escape character": ("a backslash in double quotes starts an escape", "use single quotes"),
    "special characters are not allowed": ("a control character is in the file", "take it out"),
    "control characters are not allowed": ("a control character is in the file", "take it out"),
}


def explain(error: yaml.YAMLError, file: str, lines: list[str]) -> Finding:
    """The parser's complaint as a finding at its line and column."""
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "it cannot be read")
    at = Location(file, mark.line + 1, mark.column + 1) if mark else _of_position(error, file, lines)
    line = lines[at.line - 1] if at.line <= len(lines) else ""
    says, fix = _plain(problem, line, at.column)
    return Finding(rule="yaml", at=at, says=f"not YAML: {says}", fix=fix)


def _plain(problem: str, line: str, column: int) -> tuple[str, str]:
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "a tab indents this line", "indent with spaces"
    if "${" in line and "expected ','" in problem:
        return "${...} between brackets needs quotes", 'write "${...}"'
    if "cannot start any token" in problem:
        return f"{line[column - 1 : column]!r} cannot start a value", "put the value in quotes"
    return next((words for part, words in _WORDS.items() if part in problem), (problem, "correct this line"))


def _of_position(error: yaml.YAMLError, file: str, lines: list[str]) -> Location:
    left = getattr(error, "position", 0)
    for number, line in enumerate(lines, start=1):
        if left <= len(line):
            return Location(file, number, left + 1)
        left -= len(line) + 1
    return Location(file)
