"""Reads how a source decodes its bytes: `json`, `csv`, `avro`, `value` and `key`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

from penstock.load.reader import Reader, to_text
from penstock.model import Decode, Keys
from penstock.options import Secret
from penstock.text import did_you_mean, join_words, nearest, show

FORMATS = ("json", "csv", "avro")
#: The keys of a source that decode, and their descriptions.
KEYS = {
    "json": "The columns of JSON records, as 'name type, name type'.",
    "csv": "The columns of CSV records, as 'name type, name type'.",
    "avro": "The schema of Avro records: the path of a file, or the schema itself.",
    "value": "The long form of json, csv and avro, with `options`; or string or bytes.",
    "key": "How the key of a record is decoded, into the column `key`: string, bytes, or as `value`.",
}
MAX_BYTES = 1_000_000
_PLAIN = ("string", "bytes")


def read_value(reader: Reader, name: str, raw: Mapping[str, Any]) -> Decode | None:
    """Read `json`, `csv`, `avro` or `value` of a source; at most one of them."""
    keys: Keys = ("sources", name)
    given = [key for key in (*FORMATS, "value") if key in raw]
    if len(given) > 1:
        says = f"source {name!r} is decoded in {len(given)} ways, {join_words(given, 'and')}"
        reader.report("one-decode", (*keys, given[1]), says, "keep one of them")
        return None
    if not given:
        return None
    if given[0] == "value":
        return read_decode(reader, name, raw["value"], (*keys, "value"))
    return _read_format(reader, name, given[0], raw[given[0]], (*keys, given[0]))


def read_decode(reader: Reader, name: str, raw: Any, keys: Keys) -> Decode | None:
    """Read the value of `value:` or `key:`."""
    if raw in _PLAIN:
        return Decode(cast(Literal["string", "bytes"], raw))
    if not isinstance(raw, Mapping):
        says = f"source {name!r}: {keys[-1]!r} is {show(raw)}, expected string, bytes or a mapping with a format"
        reader.report("wrong-type", keys, says, f"write '{keys[-1]}: {{json: ...}}'")
        return None
    found = [key for key in raw if key in FORMATS]
    if len(found) != 1:
        listed = join_words(found or ["none"], "and")
        says = f"source {name!r}: {keys[-1]!r} needs one of {join_words(FORMATS)}; found {listed}"
        reader.report("one-decode", keys, says)
        return None
    _check_keys(reader, name, raw, found[0], keys)
    options = _read_options(reader, name, raw.get("options"), (*keys, "options"))
    header = raw.get("registry_header") is True
    return _read_format(reader, name, found[0], raw[found[0]], (*keys, found[0]), options, header)


def _read_format(
    reader: Reader,
    name: str,
    form: str,
    raw: Any,
    keys: Keys,
    options: Mapping[str, str] | None = None,
    registry_header: bool = False,
) -> Decode | None:
    schema = _read_avro_schema(reader, name, raw, keys) if form == "avro" else _read_ddl(reader, name, raw, keys)
    if schema is None:
        return None
    return Decode(cast(Literal["json", "csv", "avro"], form), schema, options or {}, registry_header)


def _read_ddl(reader: Reader, name: str, raw: Any, keys: Keys) -> str | None:
    if isinstance(raw, Secret):
        reader.report("variable", keys, f"source {name!r} has a secret in its columns", "write ${NAME} instead")
        return None
    if isinstance(raw, str) and raw.strip():
        return raw.strip()
    says = f"source {name!r}: {keys[-1]!r} is {show(raw)}, expected columns"
    reader.report("wrong-type", keys, says, f"write '{keys[-1]}: id long, name string'")
    return None


def _check_keys(reader: Reader, name: str, raw: Mapping[str, Any], form: str, keys: Keys) -> None:
    allowed = [form, "options", *(["registry_header"] if form == "avro" else [])]
    for key in raw:
        if key not in allowed:
            says = f"source {name!r}: unknown key {key!r} in {keys[-1]!r}"
            reader.report("unknown-key", (*keys, key), says, did_you_mean(key, allowed))
    if not isinstance(raw.get("registry_header", False), bool):
        says = f"source {name!r}: 'registry_header' is {show(raw['registry_header'])}, expected true or false"
        reader.report("wrong-type", (*keys, "registry_header"), says)


def _read_options(reader: Reader, name: str, raw: Any, keys: Keys) -> dict[str, str]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping) or any(isinstance(value, dict | list) for value in raw.values()):
        says = f"source {name!r}: 'options' is {show(raw)}, expected a mapping of names to single values"
        reader.report("wrong-type", keys, says, "write them with Spark's names")
        return {}
    return {key: to_text(value) for key, value in raw.items()}


def _read_avro_schema(reader: Reader, name: str, raw: Any, keys: Keys) -> str | None:
    if isinstance(raw, Mapping | list):
        return json.dumps(raw)
    if not isinstance(raw, str) or not raw.strip():
        says = f"source {name!r}: 'avro' is {show(raw)}, expected a schema or the path of one"
        reader.report("wrong-type", keys, says, "write 'avro: schemas/trade.avsc'")
        return None
    text = raw.strip()
    inline = text[0] in '{["'
    schema = text if inline else _read_file(reader, name, text, keys)
    try:
        return None if schema is None else json.dumps(json.loads(schema))
    except (ValueError, RecursionError) as error:
        where = "the schema" if inline else f"the schema file {text!r}"
        says = f"source {name!r}: {where} is not JSON ({getattr(error, 'msg', 'nested too deep')})"
        reader.report("avro-schema", keys, says, "correct it")
        return None


def _read_file(reader: Reader, name: str, path: str, keys: Keys) -> str | None:
    whole = Path(reader.document.folder, path)
    try:
        if whole.is_file() and whole.stat().st_size <= MAX_BYTES:
            return whole.read_text(encoding="utf-8")
        near = nearest(whole.name, (each.name for each in whole.parent.iterdir())) if not whole.exists() else None
        fix = f"did you mean {near!r}?" if near else "give the path of an .avsc file, relative to the pipeline's file"
    except (OSError, ValueError):
        fix = "give the path of an .avsc file, relative to the pipeline's file"
    reader.report("avro-schema", keys, f"source {name!r}: no schema file {path!r}", fix)
    return None
