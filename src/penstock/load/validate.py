"""Validates options: pydantic's errors become findings at the user's lines; Spark's names for options are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from penstock.load.reader import Reader, Unset
from penstock.model import Keys
from penstock.options import Options, Secret
from penstock.text import did_you_mean, join_words, nearest, show

_OptionsT = TypeVar("_OptionsT", bound=Options)

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_too_short": "some text",
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "too_short": "at least {min_length} of them",
    "too_long": "at most {max_length} of them",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "text that matches {pattern}",
}


def read_options(reader: Reader, options_class: type[_OptionsT], raw: object, keys: Keys, who: str) -> _OptionsT | None:
    """Validate `raw` as options; None after reporting everything wrong with it."""
    if isinstance(raw, options_class):
        return raw
    if raw is not None and not isinstance(raw, Mapping):
        says = f"{who}: {str(keys[-1])!r} is {show(raw)}, expected a mapping of options"
        reader.report("wrong-type", keys, says, f"its options are {join_words(option_names(options_class), 'and')}")
        return None
    values = _to_tuples(raw or {})
    try:
        return _validate(reader, options_class, values, keys)
    except ValidationError as error:
        _report_all(reader, error, options_class, keys, who, values)
        return None


def option_names(options_class: type[Options]) -> list[str]:
    """The names of the options of a class, as written in a file."""
    return [field.alias or name for name, field in options_class.model_fields.items()]


def _validate(reader: Reader, options_class: type[_OptionsT], values: dict[str, Any], keys: Keys) -> _OptionsT:
    try:
        return _restore_secrets(options_class.model_validate(values), values)
    except ValidationError as error:
        spelled = _restore_spelling(reader, error, values, keys)
        if spelled == values:
            raise
        return _restore_secrets(options_class.model_validate(spelled), spelled)


def _restore_spelling(reader: Reader, error: ValidationError, values: dict[str, Any], keys: Keys) -> dict[str, Any]:
    # A lone ${NAME} became a number where text is expected: use its original spelling.
    wanted = {_path(each, values) for each in error.errors(include_url=False) if each["type"] == "string_type"}
    spelled = {path: text for path in wanted if (text := reader.document.spelled.get((*keys, *path))) is not None}
    respelled: dict[str, Any] = _replace(values, spelled, ())
    return respelled


def _replace(value: Any, texts: Mapping[Keys, str], path: Keys) -> Any:
    if path in texts:
        return texts[path]
    return (
        {key: _replace(each, texts, (*path, key)) for key, each in value.items()} if isinstance(value, dict) else value
    )


def _to_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_tuples(each) for key, each in value.items()}
    return tuple(_to_tuples(each) for each in value) if isinstance(value, list | tuple) else value


def _restore_secrets(options: _OptionsT, values: Mapping[str, Any]) -> _OptionsT:
    # pydantic converts every str subclass to str, so make secrets of them again.
    names = {field.alias or name: name for name, field in type(options).model_fields.items()}
    again = {
        names[key]: _restore_secret(getattr(options, names[key]), value)
        for key, value in values.items()
        if key in names
    }
    changed = {name: value for name, value in again.items() if value is not getattr(options, name)}
    return options.model_copy(update=changed) if changed else options


def _restore_secret(value: Any, raw: Any) -> Any:
    if isinstance(raw, Secret) and isinstance(value, str):
        return Secret(value)
    if isinstance(raw, Secret) and isinstance(value, tuple):
        return tuple(Secret(each) if isinstance(each, str) else each for each in value)
    if isinstance(raw, tuple) and isinstance(value, tuple) and len(raw) == len(value):
        return (
            tuple(_restore_secret(each, was) for each, was in zip(value, raw, strict=True))
            if _has_secret(raw)
            else value
        )
    if isinstance(raw, dict) and isinstance(value, Options):
        return _restore_secrets(value, raw)
    if isinstance(raw, dict) and isinstance(value, dict):
        return {key: _restore_secret(each, raw.get(key)) for key, each in value.items()} if _has_secret(raw) else value
    return value


def _has_secret(raw: Any) -> bool:
    inside = raw.values() if isinstance(raw, dict) else raw
    return any(isinstance(each, Secret) or (isinstance(each, dict | tuple) and _has_secret(each)) for each in inside)


def _report_all(
    reader: Reader, error: ValidationError, options_class: type[Options], keys: Keys, who: str, values: dict[str, Any]
) -> None:
    # A value that matches none of several types fails once per type, but is one mistake.
    mistakes: dict[Keys, list[Any]] = {}
    for each in error.errors(include_url=False):
        if not _is_about_unset(each):
            mistakes.setdefault(_path(each, values), []).append(each)
    unknown = [str(key) for key in values if key not in option_names(options_class)]
    meant = {find_name(key) or nearest(key, option_names(options_class)) for key in unknown}
    for path, errors in mistakes.items():
        if errors[0]["type"] != "missing" or path[-1] not in meant:
            rule, says, fix = _describe(errors, options_class, path, who)
            reader.report(rule, (*keys, *path), says, fix)


def _is_about_unset(error: Any) -> bool:
    """Whether an error may come from an unset variable, which is reported already."""
    found = error["input"]
    return isinstance(found, Unset) or (
        error["type"] == "value_error"
        and isinstance(found, dict)
        and any(isinstance(each, Unset) for each in found.values())
    )


def _path(error: Any, values: Any) -> Keys:
    if error["type"] in ("missing", "extra_forbidden"):
        return tuple(error["loc"])
    path: list[str | int] = []
    for step in error["loc"]:
        inside = range(len(values)) if isinstance(values, tuple) else values if isinstance(values, dict) else ()
        if step not in inside:  # the name of a tried type, not a key
            break
        values = values[step]
        path.append(step)
    return tuple(path)


def _describe(errors: list[Any], options_class: type[Options], path: Keys, who: str) -> tuple[str, str, str]:
    first, name = errors[0], ".".join(str(part) for part in path)
    if first["type"] == "missing":
        kind = getattr(options_class, "kind", "")
        return "missing-key", f"{who}{kind and f' ({kind})'} needs {name!r}", _description(options_class, name)
    if first["type"] == "extra_forbidden":
        last = str(path[-1])
        inner = _inner(options_class, path[:-1])
        says = f"{who}: unknown key {last!r}" + (f" in {path[-2]!r}" if len(path) > 1 else "")
        return "unknown-key", says, suggest_key(last, option_names(inner)) if inner else ""
    custom = next((each for each in errors if each["type"] == "value_error"), None)
    if custom is not None:
        return "wrong-value", f"{who}: {custom['ctx']['error']}", ""
    expected = join_words(dict.fromkeys(_describe_type(each) for each in errors))
    return "wrong-type", f"{who}: {name!r} is {show(first['input'])}, expected {expected}", _fix(first)


def _inner(options_class: type[Options], path: Keys) -> type[Options] | None:
    """The class of the nested options at `path`."""
    found: type[Options] | None = options_class
    for name in path:
        field = found.model_fields.get(str(name)) if found else None
        kinds = [field.annotation, *get_args(field.annotation)] if field else []
        found = next((each for each in kinds if isinstance(each, type) and issubclass(each, Options)), None)
    return found


def _describe_type(error: Any) -> str:
    words = _EXPECTED.get(error["type"])
    if words is None:
        return str(error["msg"]).removeprefix("Input should be ").lower()
    return words.format(**error.get("ctx", {})).replace("'", "")


def _fix(error: Any) -> str:
    found = error["input"]
    if isinstance(found, Secret):
        return (
            "a secret is text; write ${NAME} for a value that is not secret" if error["type"] != "string_type" else ""
        )
    if error["type"] == "string_type" and isinstance(found, int | float):
        return "put it in quotes"
    if error["type"] == "literal_error" and isinstance(found, str):
        words = str(error["ctx"]["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        meant = did_you_mean(found, words)
        return meant if meant.startswith("did") else ""
    return ""


def _description(options_class: type[Options], name: str) -> str:
    field = next((each for key, each in options_class.model_fields.items() if (each.alias or key) == name), None)
    words = (field.description if field else None) or f"add '{name}: ...'"
    return words[0].lower() + words[1:].rstrip(".") if not words.startswith("add") else words


_CONNECTOR, _SOURCE, _SINK = "an option of the connector", "a key of the source", "a key of the sink"
_TRIGGER = ("trigger", _SINK)

#: Spark's name in lower case: our key, and where it belongs.
_NAMES: dict[str, tuple[str, str]] = {
    # Kafka
    "kafka.bootstrap.servers": ("servers", _CONNECTOR),
    "bootstrap.servers": ("servers", _CONNECTOR),
    "bootstrapservers": ("servers", _CONNECTOR),
    "bootstrap_servers": ("servers", _CONNECTOR),
    "subscribe": ("topics", _CONNECTOR),
    "subscribepattern": ("pattern", _CONNECTOR),
    "assign": ("partitions", _CONNECTOR),
    "startingoffsets": ("start", _CONNECTOR),
    "startingtimestamp": ("start", _CONNECTOR),
    "startingoffsetsbytimestamp": ("start", _CONNECTOR),
    "startingversion": ("start", _CONNECTOR),
    "endingoffsets": ("end", _CONNECTOR),
    "endingtimestamp": ("end", _CONNECTOR),
    "endingoffsetsbytimestamp": ("end", _CONNECTOR),
    "maxoffsetspertrigger": ("records_per_trigger", _CONNECTOR),
    "includeheaders": ("headers", _CONNECTOR),
    "failondataloss": ("on_data_loss", _CONNECTOR),
    # files and Delta
    "maxfilespertrigger": ("files_per_trigger", _CONNECTOR),
    "maxbytespertrigger": ("bytes_per_trigger", _CONNECTOR),
    "latestfirst": ("newest_first", _CONNECTOR),
    "maxfileage": ("max_age", _CONNECTOR),
    "pathglobfilter": ("glob", _CONNECTOR),
    "recursivefilelookup": ("recursive", _CONNECTOR),
    "cleansource": ("after_read", _CONNECTOR),
    "sourcearchivedir": ("archive_to", _CONNECTOR),
    "inferschema": ("infer", _CONNECTOR),
    "partitionby": ("partition_by", _CONNECTOR),
    "versionasof": ("as_of", _CONNECTOR),
    "timestampasof": ("as_of", _CONNECTOR),
    "readchangefeed": ("change_feed", _CONNECTOR),
    # the others
    "dbtable": ("table", _CONNECTOR),
    "numrows": ("rows", _CONNECTOR),
    "numpartitions": ("partitions", _CONNECTOR),
    "rampuptime": ("ramp_up_seconds", _CONNECTOR),
    "includetimestamp": ("timestamps", _CONNECTOR),
    "withwatermark": ("watermark", _SOURCE),
    "eventtime": ("column", "a key of 'watermark'"),
    "delaythreshold": ("delay", "a key of 'watermark'"),
    "outputmode": ("mode", _SINK),
    "processingtime": _TRIGGER,
    "availablenow": _TRIGGER,
    "continuous": _TRIGGER,
    "realtime": _TRIGGER,
}
#: Spark's names without an equivalent key.
_HINTS = {
    "queryname": "here it is the sink's own name",
    "checkpointlocation": "here it is called 'storage', a key of the file; each sink has its own checkpoint in it",
    "format": "here the connector is the key: write 'kafka: {...}', or 'files: {format: csv, ...}'",
}


def suggest_key(word: str, known: Iterable[str]) -> str:
    """Suggest a key for an unknown one: our name for one of Spark's, the nearest known key, or all of them."""
    keys = list(known)
    name = find_name(word)
    if name in keys:
        return f"here it is called {name!r}"
    if name:
        return f"here it is called {name!r}, {_NAMES[word.lower()][1]}"
    return _HINTS.get(word.lower()) or did_you_mean(word, keys)


def find_name(word: str) -> str:
    """Our key for one of Spark's option names; '' if it is not one."""
    return _NAMES.get(word.lower(), ("", ""))[0]
