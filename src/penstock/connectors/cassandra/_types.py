"""CQL types and the Spark types that hold the same values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_WHOLE = ("tinyint", "smallint", "int", "bigint", "varint")

#: CQL types that each Spark type can be written to; only a timestamp loses its microseconds.
_WRITTEN = {
    "string": ("text", "varchar", "ascii", "uuid", "timeuuid", "inet"),
    "byte": _WHOLE,
    "short": _WHOLE[1:],
    "integer": _WHOLE[2:],
    "long": (*_WHOLE[3:], "time"),
    "float": ("float", "double"),
    "double": ("double",),
    "boolean": ("boolean",),
    "binary": ("blob",),
    "date": ("date",),
    "timestamp": ("timestamp",),
}

#: The Spark type that each CQL type is read as.
_READ = {
    "text": "string",
    "varchar": "string",
    "ascii": "string",
    "uuid": "string",
    "timeuuid": "string",
    "inet": "string",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "counter": "bigint",
    "time": "bigint",
    "varint": "decimal(38,0)",
    "decimal": "decimal(38,18)",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "blob": "binary",
    "date": "date",
    "timestamp": "timestamp",
}


@dataclass(frozen=True)
class CqlType:
    """A CQL type with its element types; `frozen` is dropped, as it does not change the values."""

    name: str
    inside: tuple[CqlType, ...] = ()

    @classmethod
    def parse(cls, text: str) -> CqlType:
        """Parse `map<text, frozen<list<int>>>`."""
        name, bracket, rest = text.strip().partition("<")
        if not bracket:
            return cls(name.strip().lower())
        inside = tuple(cls.parse(part) for part in _parts(rest.rpartition(">")[0]))
        return inside[0] if name.strip().lower() == "frozen" else cls(name.strip().lower(), inside)

    @property
    def spark(self) -> str | None:
        """The Spark type that it is read as; None if it cannot be read."""
        inside = [each.spark for each in self.inside]
        if None in inside:
            return None
        if self.name in ("list", "set"):
            return f"array<{inside[0]}>"
        if self.name == "map":
            return f"map<{inside[0]},{inside[1]}>"
        return _READ.get(self.name)

    def takes(self, kind: DataType) -> bool:
        """Whether values of a Spark type can be written to it."""
        found: Any = kind
        name = kind.typeName()
        if name == "array":
            return self.name in ("list", "set") and self.inside[0].takes(found.elementType)
        if name == "map":
            return self.name == "map" and self.inside[0].takes(found.keyType) and self.inside[1].takes(found.valueType)
        if name == "struct":
            # A user-defined type: the connector matches its fields by name.
            return self.name == "tuple" or (self.name not in _READ and not self.inside)
        if name == "decimal":
            return self.name == "decimal" or (self.name == "varint" and found.scale == 0)
        return self.name in _WRITTEN.get(name, ())


def cql_for(kind: DataType) -> str | None:
    """The CQL type of a new column for a Spark type; None if there is none."""
    found: Any = kind
    name = kind.typeName()
    inside: list[str | None]
    if name == "array":
        inside = [cql_for(found.elementType)]
        return f"frozen<list<{inside[0]}>>" if inside[0] else None
    if name == "map":
        inside = [cql_for(found.keyType), cql_for(found.valueType)]
        return f"frozen<map<{inside[0]}, {inside[1]}>>" if all(inside) else None
    if name == "decimal":
        return "decimal"
    return _WRITTEN[name][0] if name in _WRITTEN else None


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
