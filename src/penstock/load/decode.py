"""How a source's bytes become columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from penstock.load.reading import Reader, as_text
from penstock.model import Decode, Keys
from penstock.options import Secret
from penstock.text import did_you_mean, join_words, nearest, show

FORMATS = ("json", "csv", "avro")
MOST_BYTES = 1_000_000
_PLAIN = ("string", "bytes")


def read_value(reading: Reader, name: str, raw: Mapping[str, Any]) -> Decode | None:
    """What `json`, `csv`, `avro` or `value` of a source say; one of them at most."""
    keys: Keys = ("sources", name)
    given = [key for key in (*FORMATS, "value") if key in raw]
    if len(given) > 1:
        says = f"source {name!r} is decoded in {len(given)} ways, {join_words(given, 'and')}"
        reading.found("one-decode", (*keys, given[1]), says, "keep one of them")
        return None
    if not given:
        return None
    if given[0] == "value":
        return read_decode(reading, name, raw["value"], (*keys, "value"))
    return _formatted(reading, name, given[0], raw[given[0]], (*keys, given[0]))


def read_decode(reading: Reader, name: str, raw: Any, keys: Keys) -> Decode | None:
    """What follows `value:` or `key:`."""
    if raw in _PLAIN:
        return Decode(cast(Literal["string", "bytes"], raw))
    if not isinstance(raw, Mapping):
        says = f"source {name!r}: {keys[-1]!r} is {show(raw)}, expected string, bytes or a mapping with a format"
        reading.found("wrong-type", keys, says, f"write '{keys[-1]}: {{json: ...}}'")
        return None
    found = [key for key in raw if key in FORMATS]
    if len(found) != 1:
        says = f"source {name!r}: {keys[-1]!r} needs one of {join_words(FORMATS)}; found {join_words(found or ['none'], 'and')}"
        reading.found("one-decode", keys, says)
        return None
    _check_keys(reading, name, raw, found[0], keys)
    options = _options(reading, name, raw.get("options"), (*keys, "options"))
    header = raw.get("registry_header") is True
    return _formatted(reading, name, found[0], raw[found[0]], (*keys, found[0]), options, header)


def _formatted(
    reading: Reader,
    name: str,
    form: str,
    raw: Any,
    keys: Keys,
    options: Mapping[str, str] | None = None,
    registry_header: bool = False,
) -> Decode | None:
    schema = _avro_schema(reading, name, raw, keys) if form == "avro" else _ddl(reading, name, raw, keys)
    if schema is None:
        return None
    return Decode(cast(Literal["json", "csv", "avro"], form), schema, options or {}, registry_header)


def _ddl(reading: Reader, name: str, raw: Any, keys: Keys) -> str | None:
    if isinstance(raw, Secret):
        reading.found("variable", keys, f"source {name!r} has a secret in its columns", "write ${NAME} instead")
        return None
    if isinstance(raw, str) and raw.strip():
        return raw.strip()
    says = f"source {name!r}: {keys[-1]!r} is {show(raw)}, expected columns"
    reading.found("wrong-type", keys, says, f"write '{keys[-1]}: id long, name string'")
    return None


def _check_keys(reading: Reader, name: str, raw: Mapping[str, Any], form: str, keys: Keys) -> None:
    allowed = [form, "options", *(["registry_header"] if form == "avro" else [])]
    for key in raw:
        if key not in allowed:
            says = f"source {name!r}: {keys[-1]!r} does not know {key!r}"
            reading.found("unknown-key", (*keys, key), says, did_you_mean(key, allowed))
    if not isinstance(raw.get("registry_header", False), bool):
        says = f"source {name!r}: 'registry_header' is {show(raw['registry_header'])}, expected true or false"
        reading.found("wrong-type", (*keys, "registry_header"), says)


def _options(reading: Reader, name: str, raw: Any, keys: Keys) -> dict[str, str]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping) or any(isinstance(value, dict | list) for value in raw.values()):
        says = f"source {name!r}: 'options' is {show(raw)}, expected a mapping of names to single values"
        reading.found("wrong-type", keys, says, "write them as Spark spells them")
        return {}
    return {key: as_text(value) for key, value in raw.items()}


def _avro_schema(reading: Reader, name: str, raw: Any, keys: Keys) -> str | None:
    if isinstance(raw, Mapping | list):
        return json.dumps(raw)
    if not isinstance(raw, str) or not raw.strip():
        says = f"source {name!r}: 'avro' is {show(raw)}, expected a schema or the path of one"
        reading.found("wrong-type", keys, says, "write 'avro: schemas/trade.avsc'")
        return None
    text = raw.strip()
    inline = text[0] in '{["'
    schema = text if inline else _file(reading, name, text, keys)
    try:
        return None if schema is None else json.dumps(json.loads(schema))
    except (ValueError, RecursionError) as error:
        where = "the schema" if inline else f"the schema file {text!r}"
        says = f"source {name!r}: {where} is not JSON ({getattr(error, 'msg', 'nested too deep')})"
        reading.found("avro-schema", keys, says, "correct it")
        return None


def _file(reading: Reader, name: str, path: str, keys: Keys) -> str | None:
    whole = Path(reading.document.folder, path)
    try:
        if whole.is_file() and whole.stat().st_size <= MOST_BYTES:
            return whole.read_text(encoding="utf-8")
        near = nearest(whole.name, (each.name for each in whole.parent.iterdir())) if not whole.exists() else None
        fix = f"did you mean {near!r}?" if near else "give the path of an .avsc file, beside the pipeline's file"
    except (OSError, ValueError):
        fix = "give the path of an .avsc file, beside the pipeline's file"
    reading.found("avro-schema", keys, f"source {name!r}: there is no schema file {path!r}", fix)
    return None
