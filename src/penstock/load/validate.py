"""Values to options: what pydantic finds becomes sentences at the user's lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from penstock.load.reading import Reader, Unset
from penstock.load.spark_words import find_name, suggest_key
from penstock.model import Keys
from penstock.options import Options, Secret
from penstock.text import did_you_mean, join_words, nearest, show

_Made = TypeVar("_Made", bound=Options)

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


def read_options(reading: Reader, made: type[_Made], raw: object, keys: Keys, who: str) -> _Made | None:
    """The options that `raw` describes, or None after noting everything wrong with it."""
    if isinstance(raw, made):
        return raw
    if raw is not None and not isinstance(raw, Mapping):
        says = f"{who}: {str(keys[-1])!r} is {show(raw)}, expected a mapping of options"
        reading.found("wrong-type", keys, says, f"it knows {join_words(known(made), 'and')}")
        return None
    values = _with_tuples(raw or {})
    try:
        return _validated(reading, made, values, keys)
    except ValidationError as error:
        _note_all(reading, error, made, keys, who, values)
        return None


def known(made: type[Options]) -> list[str]:
    """The names that options of this class are written with."""
    return [field.alias or name for name, field in made.model_fields.items()]


def _validated(reading: Reader, made: type[_Made], values: dict[str, Any], keys: Keys) -> _Made:
    try:
        return _with_secrets(made.model_validate(values), values)
    except ValidationError as error:
        spelled = _as_spelled(reading, error, values, keys)
        if spelled == values:
            raise
        return _with_secrets(made.model_validate(spelled), spelled)


def _as_spelled(reading: Reader, error: ValidationError, values: dict[str, Any], keys: Keys) -> dict[str, Any]:
    # ${NAME} alone became a number, but text is wanted: take it as it was spelled.
    wanted = {_path(each, values) for each in error.errors(include_url=False) if each["type"] == "string_type"}
    spelled = {path: text for path in wanted if (text := reading.document.spelled.get((*keys, *path))) is not None}
    respelled: dict[str, Any] = _replaced(values, spelled, ())
    return respelled


def _replaced(value: Any, texts: Mapping[Keys, str], path: Keys) -> Any:
    if path in texts:
        return texts[path]
    return (
        {key: _replaced(each, texts, (*path, key)) for key, each in value.items()} if isinstance(value, dict) else value
    )


def _with_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_tuples(each) for key, each in value.items()}
    return tuple(_with_tuples(each) for each in value) if isinstance(value, list | tuple) else value


def _with_secrets(made: _Made, values: Mapping[str, Any]) -> _Made:
    # pydantic makes plain text of every text; what was a secret becomes one again.
    names = {field.alias or name: name for name, field in type(made).model_fields.items()}
    again = {
        names[key]: _secret_again(getattr(made, names[key]), value) for key, value in values.items() if key in names
    }
    changed = {name: value for name, value in again.items() if value is not getattr(made, name)}
    return made.model_copy(update=changed) if changed else made


def _secret_again(value: Any, raw: Any) -> Any:
    if isinstance(raw, Secret) and isinstance(value, str):
        return Secret(value)
    if isinstance(raw, Secret) and isinstance(value, tuple):
        return tuple(Secret(each) if isinstance(each, str) else each for each in value)
    if isinstance(raw, tuple) and isinstance(value, tuple) and len(raw) == len(value):
        return (
            tuple(_secret_again(each, was) for each, was in zip(value, raw, strict=True)) if _has_secret(raw) else value
        )
    if isinstance(raw, dict) and isinstance(value, Options):
        return _with_secrets(value, raw)
    if isinstance(raw, dict) and isinstance(value, dict):
        return {key: _secret_again(each, raw.get(key)) for key, each in value.items()} if _has_secret(raw) else value
    return value


def _has_secret(raw: Any) -> bool:
    inside = raw.values() if isinstance(raw, dict) else raw
    return any(isinstance(each, Secret) or (isinstance(each, dict | tuple) and _has_secret(each)) for each in inside)


def _note_all(
    reading: Reader, error: ValidationError, made: type[Options], keys: Keys, who: str, values: dict[str, Any]
) -> None:
    # A value that fits none of several types fails once per type; it is still one mistake.
    mistakes: dict[Keys, list[Any]] = {}
    for each in error.errors(include_url=False):
        if not _is_about_unset(each):
            mistakes.setdefault(_path(each, values), []).append(each)
    unknown = [str(key) for key in values if key not in known(made)]
    meant = {find_name(key) or nearest(key, known(made)) for key in unknown}
    for path, errors in mistakes.items():
        if errors[0]["type"] != "missing" or path[-1] not in meant:
            rule, says, fix = _sentence(errors, made, path, who)
            reading.found(rule, (*keys, *path), says, fix)


def _is_about_unset(error: Any) -> bool:
    """Whether an error is about a variable that is not set, or may be: that is a finding of its own already."""
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
        if step not in inside:  # the name of a type that was tried, not a key
            break
        values = values[step]
        path.append(step)
    return tuple(path)


def _sentence(errors: list[Any], made: type[Options], path: Keys, who: str) -> tuple[str, str, str]:
    first, name = errors[0], ".".join(str(part) for part in path)
    if first["type"] == "missing":
        kind = getattr(made, "kind", "")
        return "missing-key", f"{who}{kind and f' ({kind})'} needs {name!r}", _description(made, name)
    if first["type"] == "extra_forbidden":
        last = str(path[-1])
        inner = _inner(made, path[:-1])
        says = f"{who} does not know {last!r}" if len(path) == 1 else f"{who}: {path[-2]!r} does not know {last!r}"
        return "unknown-key", says, suggest_key(last, known(inner)) if inner else ""
    custom = next((each for each in errors if each["type"] == "value_error"), None)
    if custom is not None:
        return "wrong-value", f"{who}: {custom['ctx']['error']}", ""
    expected = join_words(dict.fromkeys(_expected(each) for each in errors))
    return "wrong-type", f"{who}: {name!r} is {show(first['input'])}, expected {expected}", _fix(first)


def _inner(made: type[Options], path: Keys) -> type[Options] | None:
    """The class of the options that lie at `path` inside others."""
    found: type[Options] | None = made
    for name in path:
        field = found.model_fields.get(str(name)) if found else None
        kinds = [field.annotation, *get_args(field.annotation)] if field else []
        found = next((each for each in kinds if isinstance(each, type) and issubclass(each, Options)), None)
    return found


def _expected(error: Any) -> str:
    words = _EXPECTED.get(error["type"])
    if words is None:
        return str(error["msg"]).removeprefix("Input should be ").lower()
    return words.format(**error.get("ctx", {})).replace("'", "")


def _fix(error: Any) -> str:
    found = error["input"]
    if isinstance(found, Secret):
        return "a secret is text; write ${NAME} for a value that is none" if error["type"] != "string_type" else ""
    if error["type"] == "string_type" and isinstance(found, int | float):
        return "put it in quotes"
    if error["type"] == "literal_error" and isinstance(found, str):
        words = str(error["ctx"]["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        meant = did_you_mean(found, words)
        return meant if meant.startswith("did") else ""
    return ""


def _description(made: type[Options], name: str) -> str:
    field = next((each for key, each in made.model_fields.items() if (each.alias or key) == name), None)
    words = (field.description if field else None) or f"add '{name}: ...'"
    return words[0].lower() + words[1:].rstrip(".") if not words.startswith("add") else words
