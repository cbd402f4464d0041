"""The Python API: a pipeline built in Python becomes the same frozen model as a file."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from penstock import checks, load, model
from penstock.connectors import SINKS, SOURCES
from penstock.load.document import Document, to_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.engine.queries import Queries


_Function = TypeVar("_Function", bound=Callable[..., Any])
_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class Connector:
    """A connector with its options; whether it is read or written depends on where it is used."""

    kind: str
    options: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def target(self, **settings: Any) -> Connector:
        """As one of several targets: `name`, `select`, `where` and `optional`."""
        return replace(self, settings=settings)


def _connector(kind: str) -> Callable[..., Connector]:
    def connector(**options: Any) -> Connector:
        return Connector(kind, options)

    connector.__name__ = connector.__qualname__ = kind
    connector.__doc__ = f"A {kind} source or sink; `penstock list {kind}` shows its options."
    return connector


def connector_function(kind: str) -> Callable[..., Connector] | None:
    """The function of a connector of the registry; None if there is none of this kind."""
    return _connector(kind) if kind in SOURCES or kind in SINKS else None


def load_checked(path: str | Path, master: str | None = None) -> tuple[model.Pipeline, list[model.Finding]]:
    """A file as `penstock run` takes it: loaded, with the master of the command line, and checked."""
    pipeline = load.load(path)
    if master:
        pipeline = replace(pipeline, spark={**pipeline.spark, "master": master})
    return pipeline, checks.check(pipeline)


class Pipeline:
    """Sources, steps and sinks, added one after the other in any order."""

    def __init__(
        self, name: str, *, storage: str = "", spark: Mapping[str, Any] | None = None, **settings: Any
    ) -> None:
        """`settings` are the other keys of a file: `history="2 days"`, `listeners=["module:Class"]` ..."""
        self._file = sys._getframe(1).f_code.co_filename
        self._places: dict[model.Keys, model.Location] = {(): self._here()}
        self._values: dict[str, Any] = {"name": name, "sources": {}, "steps": {}, "sinks": {}}
        self._values |= {key: value for key, value in (("storage", storage), ("spark", dict(spark or {}))) if value}
        self._values |= settings
        self._loaded: model.Pipeline | None = None

    @classmethod
    def load(cls, path: str | Path) -> Pipeline:
        """The pipeline of a file, for a notebook or a test."""
        loaded = load.load(path)
        pipeline = cls(loaded.name)
        pipeline._loaded = loaded
        return pipeline

    def source(self, name: str, connector: Connector, **settings: Any) -> None:
        """Add a stream that comes in: `json="a int"`, `watermark=("a", "10 minutes")`, `bad_records="drop"` ...

        Where columns are declared (`json`, `csv`, `schema` ...) a `StructType` does as well as DDL.
        """
        watermark = settings.get("watermark")
        if isinstance(watermark, tuple):
            settings["watermark"] = dict(zip(("column", "delay", "max_ahead"), watermark, strict=False))
        self._add("sources", name, {connector.kind: dict(connector.options), **settings})

    def step(self, function: _Function) -> _Function:
        """Add a function of DataFrames, as a decorator; it reads the streams that its parameters are named after."""
        self._add("steps", function.__name__, function)
        return function

    def sql(self, name: str, text: str) -> str:
        """Add a SELECT; gives its name, to be read by a sink."""
        self._add("steps", name, text)
        return name

    def sink(
        self, name: str, reads: str | Callable[..., Any], to: Connector | Sequence[Connector], **settings: Any
    ) -> None:
        """Add a query that writes a stream, given by its name or its function: `mode="update"`, `trigger="once"`."""
        stream = reads if isinstance(reads, str) else reads.__name__
        if isinstance(to, Connector):
            targets: dict[str, Any] = {to.kind: dict(to.options)}
        else:
            targets = {"to": [{each.kind: dict(each.options), **each.settings} for each in to]}
        self._add("sinks", name, {"from": stream, **targets, **settings})

    def freeze(self) -> model.Pipeline:
        """The frozen model; a LoadError with everything that is wrong."""
        if self._loaded is not None:
            return self._loaded
        folder = str(Path(self._file).parent) if Path(self._file).exists() else "."
        return to_pipeline(Document(self._values, self._file, folder, self._places))

    def check(self) -> list[model.Finding]:
        """What contradicts a rule."""
        return checks.check(self.freeze())

    def build(self, spark: SparkSession) -> dict[str, DataFrame]:
        """Every source and step as a streaming DataFrame, by name; starts nothing."""
        from penstock.engine import build, prepare

        return build(prepare(self.freeze(), _log.info), spark)

    def start(self, spark: SparkSession, *, once: bool = False) -> Queries:
        """Start one query per sink in an existing session."""
        from penstock.engine import prepare, start

        return start(prepare(self.freeze(), _log.info), spark, once=once)

    def _add(self, section: str, name: str, value: Any) -> None:
        if name in self._values[section]:
            raise ValueError(f"there is a {section.removesuffix('s')} {name!r} already; give this one another name")
        self._values[section][name] = replace_struct_types(value)
        self._places[(section, name)] = self._here(3)

    def _here(self, depth: int = 2) -> model.Location:
        return model.Location(self._file, sys._getframe(depth).f_lineno)


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
