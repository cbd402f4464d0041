"""The JSON Schema (draft 2020-12) of a pipeline file, made from the classes that loading validates with.

A schema is looser than `check`: it knows keys, types and values, and not what options mean together. Where a value is
a number, a word or a pattern, `${NAME}` is accepted too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from penstock.connectors import SINKS, SOURCES
from penstock.load import nodes, settings
from penstock.load.decode import FORMATS
from penstock.load.decode import KEYS as DECODE_KEYS
from penstock.load.document import KEYS
from penstock.options import DURATION, Options
from penstock.steps import STEPS

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_VARIABLE = {
    "type": "string",
    "pattern": r"\$\{",
    "description": "A variable or a secret: ${NAME}, ${NAME:-default}, ${env:NAME}, ${file:path} or ${secret:name}.",
}
_OR_VARIABLE = {"$ref": "#/$defs/variable"}
_ANNOTATIONS = ("description", "default")
_NULL = {"type": "null"}
_TEXT = {"type": "string", "minLength": 1}


def file_schema(test: Schema) -> Schema:
    """The schema of a pipeline file; `test` is that of one of its tests."""
    build = _Builder()
    sections = {
        "sources": {**_section(build.source()), "minProperties": 1},
        "steps": _or_null(_section(build.step())),
        "sinks": {**_section(build.sink()), "minProperties": 1},
    }
    properties = {**sections, **{key: _or_null(each) for key, each in {**build.settings(), **_tests(test)}.items()}}
    return {
        "$schema": DIALECT,
        "title": "Penstock pipeline",
        "type": "object",
        "properties": {key: {**properties[key], "description": says} for key, says in KEYS.items()},
        "required": ["sources", "sinks"],
        "additionalProperties": False,
        "$defs": {"variable": _VARIABLE, **build.definitions},
    }


def case_file_schema(test: Schema) -> Schema:
    """The schema of a file of tests, `NAME_test.yaml`."""
    return {
        "$schema": DIALECT,
        "title": "Tests of a Penstock pipeline",
        "type": "object",
        "properties": _tests(test),
        "required": ["tests"],
        "additionalProperties": False,
    }


class _Generator(GenerateJsonSchema):
    """Options as they are written in a file: without titles and hidden fields, and with variables."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def model_schema(self, schema: Any) -> Schema:
        found = super().model_schema(schema)
        properties = found.get("properties", {})
        for name, field in schema["cls"].model_fields.items():
            key = field.alias or name
            if field.exclude:
                properties.pop(key)
            else:
                properties[key] = _accept_variables(_restore_min_length(properties[key], field))
        return found


def _restore_min_length(schema: Schema, field: FieldInfo) -> Schema:
    """The schema with the field's least length, which pydantic drops where a list may be written as text."""
    least = next((each.min_length for each in field.metadata if hasattr(each, "min_length")), 0)
    lengths = {"array": "minItems", "string": "minLength", "object": "minProperties"}
    branches = schema.get("anyOf", ())
    if not least or not branches or not all(each.get("type") in lengths for each in branches):
        return schema
    return {**schema, "anyOf": [{**each, lengths[each["type"]]: least} for each in branches]}


def _accept_variables(schema: Schema) -> Schema:
    """The schema, with `${NAME}` where it would refuse that text."""
    if "anyOf" in schema:
        branches = [_inside(each) for each in schema["anyOf"]]
        scalar = any(_is_limited_scalar(each) for each in branches)
        return {**schema, "anyOf": [*branches, _OR_VARIABLE] if scalar and not _takes_text(branches) else branches}
    if not _is_limited_scalar(schema):
        return _inside(schema)
    limits = {key: value for key, value in schema.items() if key not in _ANNOTATIONS}
    said = {key: value for key, value in schema.items() if key in _ANNOTATIONS}
    return {"anyOf": [limits, _OR_VARIABLE], **said}


def _inside(schema: Schema) -> Schema:
    """The schema of a list or a mapping, with variables in its values."""
    keys = ("items", "additionalProperties")
    return {**schema, **{key: _accept_variables(schema[key]) for key in keys if isinstance(schema.get(key), dict)}}


def _is_limited_scalar(schema: Schema) -> bool:
    if "enum" in schema or "const" in schema:
        return True
    return schema.get("type") in ("integer", "number", "boolean") or (
        schema.get("type") == "string" and "pattern" in schema
    )


def _takes_text(branches: Iterable[Schema]) -> bool:
    return any(each.get("type") == "string" and not _is_limited_scalar(each) for each in branches)


class _Builder:
    """The parts of the schema, which refer to the definitions of options classes."""

    def __init__(self) -> None:
        kinds: list[type[Options]] = [*SOURCES.values(), *STEPS.values(), *SINKS.values()]
        own = [nodes._SourceSettings, nodes._SinkSettings, nodes._TargetSettings, settings._Restart, settings._Webhook]
        wanted: list[Any] = [(each, "validation") for each in dict.fromkeys([*kinds, *own])]
        refs, made = models_json_schema(wanted, ref_template="#/$defs/{model}", schema_generator=_Generator)
        self.definitions: dict[str, Schema] = made["$defs"]
        self._refs = {options: ref for (options, _), ref in refs.items()}

    def source(self) -> Schema:
        """A source: one connector, at most one decoder, settings."""
        properties = {**self._kinds(SOURCES), **_decoders(), **self._definition(nodes._SourceSettings)["properties"]}
        pairs = combinations((*FORMATS, "value"), 2)
        return {**_one_of(properties, SOURCES), "allOf": [{"not": {"required": list(pair)}} for pair in pairs]}

    def step(self) -> Schema:
        """A step: SQL as text, or one kind with its options."""
        properties = self._kinds(STEPS)
        for kind in nodes._EXPECTED:
            short = next(iter(self._definition(STEPS[kind])["properties"].values()))
            properties[kind] = {**properties[kind], "anyOf": [short, self._refs[STEPS[kind]]]}
        properties["reads"] = self._definition(STEPS["python"])["properties"]["reads"]
        is_short = {"properties": {"python": {"type": "string"}}, "required": ["python"]}
        mapping = {
            **_one_of(properties, STEPS),
            "not": {"required": ["sql", "reads"]},
            "if": is_short,
            "then": {"required": ["reads"]},
        }
        return {"anyOf": [{**_TEXT, "description": "A SELECT over the streams that it names."}, mapping]}

    def sink(self) -> Schema:
        """A sink: a stream and one connector, or several targets under `to`."""
        own, target = self._definition(nodes._SinkSettings), self._definition(nodes._TargetSettings)
        targets = _one_of({**self._kinds(SINKS), **target["properties"]}, SINKS)
        to = {"type": "array", "minItems": 1, "items": targets, "description": "Several targets, one item for each."}
        properties = {**own["properties"], **self._kinds(SINKS), "to": to}
        return {**_one_of(properties, [*SINKS, "to"]), "required": own["required"]}

    def settings(self) -> dict[str, Schema]:
        """The keys of the whole pipeline."""
        word = {"type": "string", "pattern": r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"}
        scalar = {"type": ["string", "number", "boolean"]}
        size = {"type": "string", "pattern": f"^{settings._SIZE.pattern}$"}
        limits: dict[str, Schema] = {
            "name": {"type": "string", "pattern": f"^{settings._NAME.pattern}$"},
            "storage": _TEXT,
            "watermarks": {"enum": ["min", "max"]},
            "state_limit": size,
            "history": {"type": "string", "pattern": f"^{DURATION}$"},
            "spark": {
                "type": "object",
                "additionalProperties": scalar,
                "propertyNames": {"pattern": r"^(master$|spark\.)"},
            },
            "secrets": {
                "type": "object",
                "properties": {"python": word},
                "required": ["python"],
                "additionalProperties": False,
            },
            "listeners": {"type": "array", "items": word},
        }
        whole = {"restart": self._ref(settings._Restart)}
        whole["webhooks"] = {"type": "array", "items": self._ref(settings._Webhook)}
        return {**{key: _accept_variables(each) for key, each in limits.items()}, **whole}

    def _kinds(self, registry: Mapping[str, type[Options]]) -> dict[str, Schema]:
        """A property for each kind; one that needs no option may be empty."""
        found = {}
        for kind, options in sorted(registry.items()):
            needed = self._definition(options).get("required")
            forms = [self._refs[options], *([] if needed else [_NULL])]
            found[kind] = {"anyOf": forms, "description": (options.__doc__ or "").strip().partition("\n")[0]}
        return found

    def _definition(self, options: type[Options]) -> Schema:
        return self.definitions[self._refs[options]["$ref"].rpartition("/")[2]]

    def _ref(self, options: type[Options]) -> Schema:
        return {"$ref": self._refs[options]["$ref"]}


def _section(node: Schema) -> Schema:
    names = {"pattern": f"^{nodes._NAME.pattern}$"}
    return {"type": "object", "propertyNames": names, "additionalProperties": node}


def _one_of(properties: Mapping[str, Schema], kinds: Iterable[str]) -> Schema:
    """A mapping with exactly one of the kinds."""
    one = [{"required": [kind]} for kind in sorted(kinds)]
    return {"type": "object", "properties": dict(properties), "additionalProperties": False, "oneOf": one}


def _decoders() -> dict[str, Schema]:
    avro = {"anyOf": [_TEXT, {"type": ["object", "array"]}]}
    formats: dict[str, Schema] = {"json": _TEXT, "csv": _TEXT, "avro": avro}
    extra: dict[str, Schema] = {
        "options": {
            "type": "object",
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
            "description": "Options of Spark's reader.",
        },
        "registry_header": {"type": "boolean", "description": "Records start with a schema registry's header."},
    }
    long_form = {**_one_of({**formats, **extra}, formats), "dependentRequired": {"registry_header": ["avro"]}}
    long = {"anyOf": [{"enum": ["string", "bytes"]}, long_form]}
    forms = {**formats, "value": long, "key": long}
    return {key: {**forms[key], "description": says} for key, says in DECODE_KEYS.items()}


def _tests(test: Schema) -> dict[str, Schema]:
    return {"tests": {"type": "array", "items": test}}


def _or_null(schema: Schema) -> Schema:
    """The same, or nothing after the key."""
    return {"anyOf": [*schema["anyOf"], _NULL]} if "anyOf" in schema else {"anyOf": [schema, _NULL]}
