"""Maps offsets in texts of a pipeline that is built in Python to the literals of the file."""

from __future__ import annotations

import ast
import linecache
import re
from dataclasses import dataclass, field
from functools import cached_property

from penstock.load.text_map import PlainText
from penstock.model import Location

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
