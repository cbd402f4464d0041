"""The value or the key of a record: how it is decoded, and when it is bad."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from penstock.connectors.files import CORRUPT
from penstock.model import Decode
from penstock.options import quote
from penstock.spark import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STRUCTURED = ("json", "csv", "avro")
_RECORD = "record"
_SHOWN_CHARACTERS = 200
# Possessive, so that Java neither recurses nor backtracks: one long string would overflow the stack of a task. And
# linear: a number is entered only at its beginning, and a string that does not end takes the rest of the text.
_HUGE_EXPONENT = r"(?:^|[^0-9A-Za-z_.])-?[0-9.]++[eE][+-]?[0-9]{4,}"
_STRING = r'(?s)"(?:[^"\\]++|\\.)*+"?'


@dataclass(frozen=True)
class Payload:
    """A column of bytes or text, and how it becomes fields or text.

    Avro is decoded one level down, as the field `record` of a wrapper: that tells a bad record, which has no `record`,
    from one whose fields are all null.
    """

    column: str
    decode: Decode

    @property
    def struct(self) -> str:
        """The name of the decoded column."""
        return f"_decoded_{self.column}"

    @property
    def what(self) -> str:
        """What the payload should be, in words."""
        return f"{self.decode.format} of the declared schema" if self.decode.format in STRUCTURED else "UTF-8 text"

    def decode_column(self) -> Column:
        """The decoded payload, good or bad."""
        from pyspark.sql import functions as F  # noqa: N812

        how = self.decode
        if how.format == "bytes":
            return column(self.column).alias(self.struct)
        if how.format == "avro":
            return self._avro().alias(self.struct)
        text = self._text()
        if how.format == "string":
            return text.alias(self.struct)
        if "decimal" in how.schema.lower():
            # Spark writes out every digit of 1e1000000000 before it finds that no decimal can hold it.
            text = F.when(~text.rlike(_HUGE_EXPONENT), text)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **how.options}
        if how.format == "json":
            return F.from_json(text, _with_corrupt(how.schema), options).alias(self.struct)
        fields = (f"{quote(field.name)} {field.dataType.simpleString()}" for field in _with_corrupt(how.schema))
        return F.from_csv(text, ", ".join(fields), options).alias(self.struct)

    def record(self, rows: DataFrame) -> Column:
        """The struct of the declared fields."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        if self.decode.format != "avro":
            return F.col(self.struct)
        inner = F.col(self.struct)[_RECORD]
        return inner if isinstance(self._type(rows), StructType) else F.struct(inner.alias("value"))

    def fields(self, rows: DataFrame) -> list[str]:
        """The names inside the record."""
        return [name for name in getattr(self._type(rows), "names", ["value"]) if name != CORRUPT]

    def inside(self, rows: DataFrame) -> list[Column]:
        """The fields of the record as columns."""
        return [self.record(rows)[name].alias(name) for name in self.fields(rows)]

    def whole(self, rows: DataFrame) -> Column:
        """The payload as one column of the same name."""
        from pyspark.sql import functions as F  # noqa: N812

        if self.decode.format not in STRUCTURED:
            return F.col(self.struct).alias(self.column)
        return F.when(F.col(self.struct).isNotNull(), F.struct(*self.inside(rows))).alias(self.column)

    def bad(self, rows: DataFrame) -> Column:
        """Whether the payload cannot be decoded; a key and plain text may be absent, fields may not."""
        reasons = reduce(or_, self._reasons(rows))
        if self.decode.format in STRUCTURED and self.column != "key":
            return column(self.column).isNull() | reasons
        return column(self.column).isNotNull() & reasons

    def show(self) -> Column:
        """The payload as a message can show it: short, in one line."""
        from pyspark.sql import functions as F  # noqa: N812

        raw = column(self.column)
        if self.decode.format == "avro":
            return F.concat(F.lit("0x"), F.hex(F.substring(raw, 1, _SHOWN_CHARACTERS // 4)))
        return short(F.make_valid_utf8(self._text()))

    def _text(self) -> Column:
        return column(self.column).cast("string")

    def _type(self, rows: DataFrame) -> Any:
        outer: Any = rows.schema[self.struct].dataType
        return outer[_RECORD].dataType if self.decode.format == "avro" else outer

    def _avro(self) -> Column:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.avro.functions import from_avro

        body = column(self.column)
        if self.decode.registry_header:
            # A schema registry's header is a zero byte and four bytes of schema id.
            headed = F.substring(body, 1, 1) == F.lit(b"\x00")
            body = F.when(headed, F.substring(body, 6, 2**31 - 1))
        options = {"mode": "PERMISSIVE", **self.decode.options}
        if "avroSchema" in options:
            options["avroSchema"] = _avro_wrapper(options["avroSchema"])
        return from_avro(body, _avro_wrapper(self.decode.schema), options)

    def _reasons(self, rows: DataFrame) -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812

        if self.decode.format == "avro":
            return [F.col(self.struct).isNull() | F.col(self.struct)[_RECORD].isNull()]
        text = self._text()
        not_text = ~F.is_valid_utf8(text)
        if self.decode.format == "string":
            return [not_text]
        record = self.record(rows)
        reasons = [F.col(self.struct)[CORRUPT].isNotNull(), record.isNull(), not_text]
        reasons += [record[field.name].isNull() for field in parse_schema(self.decode.schema) if not field.nullable]
        # Spark reads 1e400 as Infinity; only a text that says so may be infinite.
        infinite = _is_infinite(record, self._type(rows))
        reasons += [infinite & ~text.rlike("(?i)inf")] if infinite is not None else []
        return [*reasons, F.trim(text) == ""] if self.decode.format == "csv" else [*reasons, *_has_trailing_text(text)]


def parse_schema(ddl: str) -> Any:
    """The fields of a declared schema."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(ddl)


def short(text: Column) -> Column:
    """The beginning of a text, in one line."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.regexp_replace(F.substring(text, 1, _SHOWN_CHARACTERS), r"\p{Cntrl}+", " ")


def _has_trailing_text(text: Column) -> list[Column]:
    """Whether something follows a JSON object: Spark reads the first one, and what comes after it would be lost."""
    from pyspark.sql import functions as F  # noqa: N812

    ends = text.endswith("}") | F.rtrim(text, F.lit(" \t\r\n")).endswith("}")
    # Two cheap looks come first, each a scan of the text; only outside of strings is it a second object.
    perhaps = text.contains("}{") | text.contains("}\n{")
    return [~ends, perhaps & F.regexp_replace(text, _STRING, "").rlike(r"\}\s*+\{")]


def _with_corrupt(ddl: str) -> Any:
    from pyspark.sql.types import StringType, StructField, StructType

    # Without NOT NULL: whether a required field is there is our check, one record at a time.
    fields = [StructField(field.name, field.dataType) for field in parse_schema(ddl)]
    return StructType([*fields, StructField(CORRUPT, StringType())])


def _avro_wrapper(schema: str) -> str:
    # A record of one field is written exactly as the field itself.
    field = {"name": _RECORD, "type": json.loads(schema)}
    return json.dumps({"type": "record", "name": "PenstockWrapper", "fields": [field]})


def _is_infinite(value: Column, kind: Any) -> Column | None:
    """Whether a value is, or holds, an infinite number; None when its type cannot."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, MapType, StructType

    if isinstance(kind, DoubleType | FloatType):
        return F.coalesce(F.abs(value) == float("inf"), F.lit(False))
    if isinstance(kind, StructType):
        inner = (_is_infinite(value[field.name], field.dataType) for field in kind)
        found = [each for each in inner if each is not None]
        return reduce(or_, found) if found else None
    if isinstance(kind, MapType):
        return _is_infinite(F.map_values(value), ArrayType(kind.valueType))
    if isinstance(kind, ArrayType) and _is_infinite(F.lit(None), kind.elementType) is not None:
        return F.coalesce(F.exists(value, lambda each: _is_infinite(each, kind.elementType)), F.lit(False))  # type: ignore[arg-type,return-value]
    return None
