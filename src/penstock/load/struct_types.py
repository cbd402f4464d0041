"""Converts a StructType to DDL; `StructType.toDDL` itself needs a running Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def replace_struct_types(value: Any) -> Any:
    """Replace every StructType inside a value by its DDL."""
    if _kind(value) == "struct":
        return to_ddl(value)
    return {key: replace_struct_types(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def to_ddl(schema: Any) -> str:
    """Convert a StructType to DDL: `id bigint NOT NULL, name string`."""
    return ", ".join(_field(field, " ") for field in schema.fields)


def _field(field: Any, separator: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", field.name)
    name = field.name if plain else "`" + field.name.replace("`", "``") + "`"
    return f"{name}{separator}{_type(field.dataType)}" + ("" if field.nullable else " NOT NULL")


def _type(data_type: Any) -> str:
    kind = _kind(data_type)
    if kind == "struct":
        return f"struct<{', '.join(_field(field, ': ') for field in data_type.fields)}>"
    if kind == "array":
        return f"array<{_type(data_type.elementType)}>"
    if kind == "map":
        return f"map<{_type(data_type.keyType)}, {_type(data_type.valueType)}>"
    return str(data_type.simpleString())


def _kind(value: Any) -> str:
    # Duck-typed, because loading a file must not import Spark.
    is_type = callable(getattr(value, "simpleString", None)) and callable(getattr(value, "typeName", None))
    return str(value.typeName()) if is_type else ""
