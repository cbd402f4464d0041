"""Text inside the settings of Java's login modules."""

from __future__ import annotations

_MARKS = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"}


def quoted(text: str) -> str:
    """A text as JAAS reads it back unchanged: its parser ends a quoted text at a bare quote or line break."""
    return '"' + "".join(_MARKS.get(char, char) for char in text) + '"'
