"""Writes a text as a YAML scalar in each of the five styles, and tells where each of its characters is.

Line breaks, indentation, escapes and folds are chosen by chance: everything that YAML allows for the same text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

Emitted = tuple[str, list[int]]
"""A scalar as it is in the file, and the index of each character of its text in it."""


@dataclass(frozen=True)
class Layout:
    """How the lines of a scalar are written."""

    indent: int
    parent: int = 0
    """The indentation of the key, to which an indentation indicator is relative."""
    newline: str = "\n"


class _Writer:
    """Appends raw text, and keeps the indexes of decoded characters."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.raw = layout, ""
        self.indexes: list[int] = []

    def add(self, raw: str, *, decoded: int = 0) -> None:
        """Append raw text; the first so many characters of it are, or stand for, characters of the text."""
        self.indexes += [len(self.raw) + each for each in range(decoded)]
        self.raw += raw

    def end_line(self, *, decoded: int = 0) -> None:
        self.add(self.layout.newline, decoded=decoded)

    def fold(self, *, decoded: int = 0) -> None:
        self.end_line(decoded=decoded)
        self.add(" " * self.layout.indent)


def emit_literal(text: str, chance: random.Random, layout: Layout) -> Emitted | None:
    """As `|`."""
    writer = _start_block("|", text, chance, layout)
    for line in _block_lines(text):
        writer.add(" " * (layout.indent if line else chance.choice([0, layout.indent])))
        writer.add(line, decoded=len(line))
        writer.end_line(decoded=1)
    return writer.raw, writer.indexes[: len(text)]


def emit_folded(text: str, chance: random.Random, layout: Layout) -> Emitted | None:
    """As `>`."""
    writer = _start_block(">", text, chance, layout)
    blank, was_word = 0, False
    for line in _block_lines(text):
        if not line:
            writer.add(" " * chance.choice([0, layout.indent]))
            writer.end_line(decoded=1)
            blank += 1
            continue
        is_word = line[0] not in " \t"
        if was_word and is_word:
            # Of the breaks between two lines of words the first is not in the text.
            writer.indexes.pop(-blank - 1)
            writer.end_line(decoded=1)
        _write_folded_line(writer, line, chance, can_fold=is_word)
        writer.end_line(decoded=1)
        blank, was_word = 0, is_word
    return writer.raw, writer.indexes[: len(text)]


def _write_folded_line(writer: _Writer, line: str, chance: random.Random, *, can_fold: bool) -> None:
    writer.add(" " * writer.layout.indent)
    for place, char in enumerate(line):
        before, after = line[place - 1 : place], line[place + 1 : place + 2]
        if can_fold and char == " " and before.strip() and after.strip() and chance.random() < 0.5:
            writer.fold(decoded=1)
        else:
            writer.add(char, decoded=1)


def _block_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _start_block(style: str, text: str, chance: random.Random, layout: Layout) -> _Writer:
    writer = _Writer(layout)
    chomping = "-" if not text.endswith("\n") else "+" if text.endswith("\n\n") or not text.strip("\n") else ""
    is_needed = text.lstrip("\n")[:1] in (" ", "\t", "") or text[:1] == "\n"
    indicator = str(layout.indent - layout.parent) if is_needed or chance.random() < 0.2 else ""
    writer.add(style + chance.choice([indicator + chomping, chomping + indicator]) + chance.choice(["", "  # why"]))
    writer.end_line()
    return writer


_ESCAPES = {"\n": "\\n", "\t": "\\t", '"': '\\"', "\\": "\\\\"}


def emit_double(text: str, chance: random.Random, layout: Layout) -> Emitted | None:
    """In double quotes."""
    writer = _Writer(layout)
    writer.add('"')
    for place, char in enumerate(text):
        is_first = place > 0 and chance.random() < 0.05
        if is_first:
            writer.add("\\")
            writer.fold()
        if char in _ESCAPES:
            writer.add(chance.choice([_ESCAPES[char], f"\\x{ord(char):02x}"]), decoded=1)
        elif is_first and char == " ":
            # Blanks at the start of a line are dropped.
            writer.add("\\ ", decoded=1)
        elif _is_between_words(text, place) and chance.random() < 0.4:
            writer.add(" " * chance.choice([0, 2]))
            writer.fold(decoded=1)
        elif not char.isascii() and chance.random() < 0.3:
            writer.add(f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}", decoded=1)
        else:
            writer.add(char, decoded=1)
    writer.add('"')
    return writer.raw, writer.indexes


def emit_single(text: str, chance: random.Random, layout: Layout) -> Emitted | None:
    """In single quotes; None if that cannot be, because blanks are next to a line break."""
    return _emit_lines(text, chance, layout, "'")


def emit_plain(text: str, chance: random.Random, layout: Layout) -> Emitted | None:
    """Without quotes; None if that cannot be."""
    if re.search(r":(\s|$)|\s#|\t", text) or not text[:1].isalpha() or text.strip() != text:
        return None
    return _emit_lines(text, chance, layout, "")


def _emit_lines(text: str, chance: random.Random, layout: Layout, quote: str) -> Emitted | None:
    if re.search(r"[ \t]\n|\n[ \t]|^\n|\n$", text) or (not quote and re.search(r"\n[#\-?:]", text)):
        return None
    writer = _Writer(layout)
    writer.add(quote)
    for run in re.findall(r"\n+|[^\n]", text):
        if run[0] == "\n":
            writer.end_line()
            for _ in run:
                writer.add(" " * chance.choice([0, layout.indent]))
                writer.end_line(decoded=1)
            writer.add(" " * layout.indent)
        elif _is_between_words(text, len(writer.indexes)) and chance.random() < 0.4:
            writer.add(" " * chance.choice([0, 2]))
            writer.fold(decoded=1)
        else:
            writer.add(run * 2 if run == quote else run, decoded=1)
    writer.add(quote)
    return writer.raw, writer.indexes


def _is_between_words(text: str, place: int) -> bool:
    around = text[place - 1 : place] + text[place + 1 : place + 2] if place else ""
    return text[place] == " " and len(around.strip()) == 2 and not set(around) & set('\\"#&:-*')


Emit = Callable[[str, random.Random, Layout], Emitted | None]
STYLES: dict[str, Emit] = {
    "literal": emit_literal,
    "folded": emit_folded,
    "double": emit_double,
    "single": emit_single,
    "plain": emit_plain,
}


def index_of(text: str, line: int, column: int) -> int:
    """The index of a place in a text, whose lines are counted as an editor does."""
    starts = [0, *(match.end() for match in re.finditer(r"\r\n|\r|\n", text))]
    return starts[line - 1] + column - 1
