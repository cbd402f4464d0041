"""A step as the file says it: SQL, or a Python function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.load.reading import Reading
from penstock.load.sections import one_kind
from penstock.load.sql_names import sql_names
from penstock.load.validate import read_options
from penstock.model import Keys, Step
from penstock.options import Secret, StepOptions
from penstock.steps import STEPS
from penstock.words import shown

_SAID = {"sql": "a SELECT", "python": "a function, written 'module:function'"}


def read_step(reading: Reading, name: str, raw: Any) -> Step | None:
    """The step, or None after noting everything wrong with it."""
    keys: Keys = ("steps", name)
    if isinstance(raw, str):
        return _made(reading, name, "sql", {"sql": raw}, keys)
    if callable(raw):
        return _made(reading, name, "python", {"python": raw}, keys)
    if not isinstance(raw, Mapping):
        says = f"step {name!r} is {shown(raw)}, expected SQL or a mapping"
        reading.found("wrong-type", keys, says, "write 'name: SELECT ...' or 'name: {python: module:function}'")
        return None
    kind = one_kind(reading, raw, STEPS, ("reads",), keys)
    return _made(reading, name, kind, raw, (*keys, kind)) if kind else None


def _made(reading: Reading, name: str, kind: str, raw: Mapping[str, Any], at: Keys) -> Step | None:
    if isinstance(raw[kind], Secret):
        says = f"step {name!r} has a secret in its text"
        reading.found("variable", at, says, "write ${NAME} for a value that is none")
        return None
    if kind == "sql" and "reads" in raw:
        reading.found(
            "unknown-key", ("steps", name, "reads"), f"step {name!r} reads what its SQL names", "take 'reads' out"
        )
        return None
    if not _is_said(raw[kind], kind):
        says = f"step {name!r}: {kind!r} is {shown(raw[kind])}, expected {_SAID[kind]}"
        reading.found("wrong-type", at, says)
        return None
    what = read_options(reading, STEPS[kind], _options(kind, raw), at, f"step {name!r}")
    if what is None:
        return None
    reads = _reads(reading, what)
    if not reads and kind == "python":
        says = f"step {name!r} reads nothing"
        reading.found("missing-key", at, says, "add 'reads: [name]', the streams that the function takes")
    place, text_at = reading.document.place(("steps", name)), reading.document.text_place(at)
    return Step(name, place, what, reads, text_at if kind == "sql" else None)


def _is_said(said: Any, kind: str) -> bool:
    if isinstance(said, StepOptions | Mapping) or kind not in _SAID:
        return True
    if kind == "sql":
        return isinstance(said, str) and bool(said.strip())
    return callable(said) or (isinstance(said, str) and re.fullmatch(r"[\w.]+:\w+", said) is not None)


def _options(kind: str, raw: Mapping[str, Any]) -> Any:
    said = raw[kind]
    if isinstance(said, StepOptions | Mapping) and "reads" not in raw:
        return said
    reads = {"reads": raw["reads"]} if "reads" in raw else {}
    if isinstance(said, Mapping):
        return {**said, **reads}
    if callable(said):
        return {"call": said, "reads": _parameters(said), **reads}
    # The first option of a step is the one that can stand alone: `sql: SELECT ...`.
    return {next(iter(STEPS[kind].model_fields)): said, **reads}


def _parameters(call: Callable[..., Any]) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(each.name for each in parameters if each.kind in kinds and each.default is inspect.Parameter.empty)


def _reads(reading: Reading, what: StepOptions) -> tuple[str, ...]:
    text = getattr(what, "text", None)
    if text is None:
        return tuple(getattr(what, "reads", ()))
    return sql_names(text, reading.stream_names)
