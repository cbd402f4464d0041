"""Option values: the frozen and strict base of every options class, secrets, durations, times, quoting."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, WrapValidator

from penstock.redaction import remember

if TYPE_CHECKING:
    from typing_extensions import Self


class Secret(str):
    """Text that came from outside the file and does not show itself."""

    __slots__ = ()

    def __new__(cls, text: object = "") -> Self:
        made = super().__new__(cls, text)
        remember(made)
        return made

    def __repr__(self) -> str:
        return "'***'"


class OpenSecret(Secret):
    """A secret that stands in the file itself, where anyone who reads the file reads it."""

    __slots__ = ()


def _kept_secret(value: object, validate: Callable[[object], str]) -> Secret:
    text = validate(value)
    return Secret(text) if isinstance(value, Secret) and not isinstance(value, OpenSecret) else OpenSecret(text)


SecretText = Annotated[str, WrapValidator(_kept_secret)]


class Options(BaseModel):
    """A fixed set of named values; an unknown name or a wrong type is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, protected_namespaces=())

    kind: ClassVar[str]


def absolute_path(folder: Path, path: str) -> str:
    """A path resolved against a folder; a URL stays as it is."""
    return path if "://" in path or Path(path).is_absolute() else str((folder / path).resolve())


_UNIT = r"(millisecond|second|minute|hour|day|week)s?"
DURATION = rf"[0-9]+ {_UNIT}( [0-9]+ {_UNIT})*"
"""A regular expression for durations, for Python and for JSON Schema."""


def _duration(text: str) -> str:
    import re

    if not re.fullmatch(DURATION, text.strip()):
        msg = f"{text!r} is not a duration; write a number and a unit, like '10 minutes'"
        raise ValueError(msg)
    return text.strip()


def _as_list(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return tuple(value) if isinstance(value, list) else value


def seconds(duration: str) -> float:
    """The length of a duration like '1 hour 30 minutes'."""
    words = duration.split()
    return sum(int(count) * _SECONDS[unit.rstrip("s")] for count, unit in zip(words[::2], words[1::2], strict=True))


_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

Duration = Annotated[
    str, AfterValidator(_duration), WithJsonSchema({"type": "string", "pattern": rf"^\s*{DURATION}\s*$"})
]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_list, json_schema_input_type=str | tuple[str, ...])]


def quote(name: str) -> str:
    """A column's name as Spark SQL and `Column` take it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


def parse_time(text: str) -> datetime:
    """A time in ISO format, in UTC unless it says otherwise; ValueError for a text that is none."""
    parsed = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
