"""Maps offsets in decoded texts to the user's file.

YAML decodes a scalar: escapes, folded lines and indentation disappear. To find a character again, the raw text is
scanned once more, in the same steps as libyaml does it, and each piece is compared with the decoded text. Where the two
get out of step, everything is at the start of the scalar.
"""

from __future__ import annotations

import ast
import linecache
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from penstock.model import Location, TextMap

Piece = tuple[int, str]
"""Decoded text, and where it is in the raw text: character by character if longer than one."""

# The line breaks of an editor; those of YAML have three more.
_EDITOR_BREAK = re.compile(r"\r\n|\r|\n")
_B = "\r\n\x85\u2028\u2029"
_BREAK = re.compile(rf"\r\n|[{_B}]")
_FOLD = re.compile(rf"[ \t]*(?:\r\n|[{_B}])[ \t{_B}]*")
_LINE = re.compile(rf"(?P<text>[^{_B}]*)(?P<end>\r\n|[{_B}]|\Z)")
_PROPERTIES = re.compile(rf"(?:[&!][^ \t{_B}]*(?:[ \t{_B}]+|\#[^{_B}]*)*)+")
_QUOTED = {
    "'": re.compile(rf"(?:[^' \t{_B}]+|[ \t]+(?![ \t{_B}]))+"),
    '"': re.compile(rf'(?:[^"\\ \t{_B}]+|[ \t]+(?![ \t{_B}]))+'),
}
_PLAIN = re.compile(rf"(?:[^ \t{_B}]+|[ \t]+(?![ \t{_B}]))+")
_ESCAPE = re.compile(r"\\(?:x(?P<two>\w{2})|u(?P<four>\w{4})|U(?P<eight>\w{8})|(?P<letter>.))", re.DOTALL)
_ESCAPES = {"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"} | {
    "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029"
}  # fmt: skip


@dataclass(frozen=True)
class FileText:
    """The text of a file, and where its lines start."""

    file: str
    text: str = field(repr=False)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in _EDITOR_BREAK.finditer(self.text))]

    def locate(self, offset: int) -> Location:
        """The line and column of a character."""
        line = bisect_right(self._starts, offset)
        return Location(self.file, line, offset - self._starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of a line."""
        starts = [*self._starts, len(self.text)]
        return self.text[starts[number - 1] : starts[number]].rstrip("\r\n")


@dataclass(frozen=True)
class ScalarText:
    """The map of a YAML scalar."""

    file: FileText = field(repr=False)
    start: int
    """Where the scalar starts, with its anchor."""
    style: str
    """`|`, `>`, a quote, or empty for a plain scalar."""
    value: str = field(repr=False)

    def locate(self, offset: int) -> Location:
        """The location of a character; of a folded or escaped one, the start of the fold or escape."""
        return self.file.locate(self._index(min(max(offset, 0), len(self.value))))

    def _index(self, offset: int) -> int:
        offsets, indexes = self._pieces
        if not offsets:
            return self.start
        if offset == len(self.value):
            return self._index(offset - 1) + (not _BREAK.match(self.value, offset - 1))
        place = bisect_right(offsets, offset) - 1
        return indexes[place] + offset - offsets[place]

    @cached_property
    def _pieces(self) -> tuple[list[int], list[int]]:
        """The offset of each piece in the value, and its index in the file."""
        offsets: list[int] = []
        indexes: list[int] = []
        done = 0
        for index, text in scan(self.file.text, self.start, self.style, self.value):
            if done >= len(self.value):
                break
            if not self.value.startswith(text[: len(self.value) - done], done):
                return [], []
            offsets.append(done)
            indexes.append(index)
            done += len(text)
        return (offsets, indexes) if done >= len(self.value) else ([], [])


@dataclass(frozen=True)
class SubstitutedText:
    """The map of a text whose `${...}` are replaced: a value is where its `${` is."""

    before: TextMap
    edits: Sequence[tuple[int, int, int]]
    """Start and end of each reference in the text before, and the length of its value."""

    def locate(self, offset: int) -> Location:
        """The location of a character of the text, or of the reference that it comes from."""
        shift = 0
        for start, end, length in self.edits:
            if offset + shift < start:
                break
            if offset + shift < start + length:
                return self.before.locate(start)
            shift += end - start - length
        return self.before.locate(offset + shift)


@dataclass(frozen=True)
class PlainText:
    """The map of a text whose lines are those of the file, the first at a known place."""

    at: Location
    text: str = field(repr=False)

    def locate(self, offset: int) -> Location:
        """The location of a character."""
        before = self.text[: max(offset, 0)]
        line, column = before.count("\n"), len(before) - before.rfind("\n")
        return Location(self.at.file, self.at.line + line, column + (0 if line else self.at.column - 1))


def scan(raw: str, start: int, style: str, value: str) -> Iterator[Piece]:
    """Decode a scalar piece by piece, each with its index in the raw text; may go beyond the end of the value."""
    if properties := _PROPERTIES.match(raw, start):
        start = properties.end()
    if style in ("|", ">"):
        header = _LINE.match(raw, start)
        return _scan_block(raw, header.end() if header else start, value, is_folded=style == ">")
    return _scan_flow(raw, start + 1, style) if style in _QUOTED else _scan_flow(raw, start, "")


def _scan_flow(raw: str, at: int, quote: str) -> Iterator[Piece]:
    """Decode a quoted or plain scalar."""
    words = _QUOTED.get(quote, _PLAIN)
    while at < len(raw):
        if fold := _FOLD.match(raw, at):
            yield from _fold(_breaks(raw, fold))
            at = fold.end()
        elif text := words.match(raw, at):
            yield at, text[0]
            at = text.end()
        elif quote == "'" and raw.startswith("''", at):
            yield at, "'"
            at += 2
        elif escape := _ESCAPE.match(raw, at):
            breaks, at = _unescape(raw, escape)
            yield from breaks
        else:
            return


def _unescape(raw: str, escape: re.Match[str]) -> tuple[Sequence[Piece], int]:
    """The pieces of an escape, and where it ends."""
    letter = escape["letter"]
    if letter is not None and letter in _B:
        # An escaped line break joins the lines; further breaks after it stay.
        fold = _FOLD.match(raw, escape.start() + 1)
        return (_breaks(raw, fold)[1:], fold.end()) if fold else ((), escape.end())
    code = escape["two"] or escape["four"] or escape["eight"]
    text = _ESCAPES.get(letter, "") if letter is not None else _character(code)
    return [(escape.start(), text)], escape.end()


def _character(code: str) -> str:
    number = int(code, 16) if re.fullmatch("[0-9A-Fa-f]+", code) else -1
    return chr(number) if 0 <= number <= 0x10FFFF else ""


def _breaks(raw: str, run: re.Match[str]) -> list[Piece]:
    return [(match.start(), _decode_break(match[0])) for match in _BREAK.finditer(raw, run.start(), run.end())]


def _decode_break(text: str) -> str:
    return text if text in ("\u2028", "\u2029", "") else "\n"


def _fold(breaks: list[Piece]) -> list[Piece]:
    """One line break becomes a space, of several the first disappears; separators of paragraphs stay."""
    if not breaks or breaks[0][1] != "\n":
        return breaks
    return breaks[1:] or [(breaks[0][0], " ")]


def _scan_block(raw: str, at: int, value: str, *, is_folded: bool) -> Iterator[Piece]:
    """Decode a block scalar from the line after its header."""
    indent = _find_indent(raw, at, value)
    breaks: list[Piece] = []
    can_fold = False
    for line in _LINE.finditer(raw, at):
        text, end = line["text"], (line.start("end"), _decode_break(line["end"]))
        spaces = len(text) - len(text.lstrip(" "))
        if spaces < len(text) and spaces < indent:
            break
        if len(text) > indent:
            # Lines that start with a blank are not folded.
            is_word = text[indent] not in " \t"
            yield from _fold(breaks) if is_folded and can_fold and is_word else breaks
            yield line.start() + indent, text[indent:]
            breaks, can_fold = [end], is_word
        else:
            breaks.append(end)
    yield from breaks


def _find_indent(raw: str, at: int, value: str) -> int:
    """The indentation of a block: what its first line with text, or its longest of blanks, lacks in the value."""
    decoded = _BREAK.split(value)
    lines = (line["text"] for line in _LINE.finditer(raw, at))
    with_text = next((line for line in decoded if line.strip(" ")), None)
    if with_text is not None:
        first = next((line for line in lines if line.strip(" ")), "")
        return max(0, _count_spaces(first) - _count_spaces(with_text))
    blank = [len(line) for line, _ in zip(lines, decoded, strict=False) if not line.strip(" ")]
    return max(blank, default=0) - max(map(len, decoded))


def _count_spaces(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


_QUOTES = re.compile(r"[rRuU]?(\"\"\"|\'\'\'|\"|\')")


@dataclass(frozen=True)
class LiteralText:
    """The map of an argument of a call."""

    call: Location
    text: str = field(repr=False)

    def locate(self, offset: int) -> Location:
        """The location of a character, or of the call if the text is not written there as one literal."""
        return self._literal.locate(offset) if self._literal is not None else self.call

    @cached_property
    def _literal(self) -> PlainText | None:
        lines = linecache.getlines(self.call.file)
        try:
            tree = ast.parse("".join(lines))
        except (SyntaxError, ValueError):
            # Not Python, or no longer what was run.
            return None
        calls = (each for each in ast.walk(tree) if isinstance(each, ast.Call) and self._is_in(each))
        literals = (each for call in calls for each in ast.walk(call) if isinstance(each, ast.Constant))
        found = next((each for each in literals if each.value == self.text), None)
        return self._map(found, lines) if found is not None else None

    def _is_in(self, node: ast.Call) -> bool:
        return node.lineno <= self.call.line <= (node.end_lineno or node.lineno)

    def _map(self, literal: ast.Constant, lines: list[str]) -> PlainText | None:
        """The map of a literal without escapes."""
        # Python counts bytes.
        column = len(lines[literal.lineno - 1].encode()[: literal.col_offset].decode())
        rest = "".join([lines[literal.lineno - 1][column:], *lines[literal.lineno : literal.end_lineno]])
        quotes = _QUOTES.match(rest)
        if quotes is None or not rest.startswith(self.text, quotes.end()):
            return None
        start = Location(self.call.file, literal.lineno, column + quotes.end() + 1)
        return PlainText(start, self.text)
