"""Substitutes `${...}` in values: variables, and secrets from the environment, files or a provider.

${NAME}           a variable, by default of the environment
${NAME:-default}  the same, or the default
${env:NAME}       a secret from the environment
${file:path}      a secret from a file that only its owner can read, in the pipeline's folder or in one of the folders
                  in the environment variable PENSTOCK_SECRET_FOLDERS, separated by commas
${secret:name}    a secret from the function of `secrets:`
$${               the two characters ${
"""

from __future__ import annotations

import importlib
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from penstock.load.reader import Document, Reader, Unset, parse_scalar
from penstock.load.text_map import SubstitutedText
from penstock.model import Keys, TextMap
from penstock.options import Secret
from penstock.text import did_you_mean, nearest, show

MAX_BYTES = 65_536
FOLDERS = "PENSTOCK_SECRET_FOLDERS"
_REFERENCE = re.compile(r"\$(?P<literal>\$\{)|\$\{(?P<inside>[^}]*)\}|(?P<open>\$\{)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_FORMS = "write ${NAME}, ${NAME:-default}, ${env:NAME}, ${file:path} or ${secret:name}"


def substitute(document: Document, variables: Mapping[str, str] | None = None) -> Reader:
    """Replace every `${...}` in the values of a document; failures are findings."""
    work = _Substitution(Reader(document), os.environ if variables is None else variables, Provider(document))
    values = work.value(document.values, ())
    spelled, texts = {**document.spelled, **work.spelled}, {**document.texts, **work.texts}
    done = replace(document, values=values, spelled=spelled, texts=texts)
    return Reader(done, work.reader.findings)


@dataclass(frozen=True)
class _Place:
    """A reference: the keys of the value that has it, and where it starts in the value."""

    keys: Keys
    text: TextMap
    offset: int


@dataclass(frozen=True)
class _Substitution:
    reader: Reader
    variables: Mapping[str, str]
    provider: Provider
    spelled: dict[Keys, str] = field(default_factory=dict)
    texts: dict[Keys, TextMap] = field(default_factory=dict)

    def value(self, value: Any, keys: Keys) -> Any:
        """Replace the references in a value; keys of mappings are left alone."""
        if isinstance(value, Mapping):
            return {key: self.value(each, (*keys, key)) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(each, (*keys, at)) for at, each in enumerate(value)]
        return self._text(value, keys) if isinstance(value, str) and "${" in value else value

    def _text(self, text: str, keys: Keys) -> Any:
        before = self.reader.document.text_at(keys, text)
        matches = list(_REFERENCE.finditer(text))
        parts = [self._part(match, _Place(keys, before, match.start())) for match in matches]
        if any(part is None for part in parts):
            return Unset(text)
        waiting = iter(parts)
        result = _REFERENCE.sub(lambda _: next(waiting) or "", text)
        edits = [(match.start(), match.end(), len(part or "")) for match, part in zip(matches, parts, strict=True)]
        self.texts[keys] = SubstitutedText(before, edits)
        if any(isinstance(part, Secret) for part in parts):
            return Secret(result)
        if _is_sql(keys):
            place = _Place(keys, before, matches[0].start())
            return self._sql(text, [part or "" for part in parts], result, place)
        return self._parse_value(text, result, keys)

    def _parse_value(self, text: str, result: str, keys: Keys) -> Any:
        match = _REFERENCE.fullmatch(text)
        if match is None or match["inside"] is None:
            return result
        self.spelled[keys] = result
        return parse_scalar(result)

    def _part(self, match: re.Match[str], place: _Place) -> str | None:
        if match["literal"]:
            return "${"
        inside = match["inside"]
        if inside is None:
            return self._refuse(
                place, "'${' is opened and never closed", "close it with '}', or write '$${' for the text"
            )
        if "${" in inside:
            return self._refuse(
                place, "a '${...}' is nested in another", "use one variable; substitution is not recursive"
            )
        kind, colon, rest = inside.partition(":")
        if colon and not rest.startswith("-"):
            return self._secret(kind, rest, place)
        return self._variable(kind, rest[1:] if colon else None, place)

    def _variable(self, name: str, default: str | None, place: _Place) -> str | None:
        if not _NAME.fullmatch(name):
            return self._refuse(place, f"'${{{name[:40]}}}' does not name a variable", _FORMS)
        value = self.variables.get(name, default)
        if value is None:
            fix = f"set it, or write ${{{name}:-default}}"
            near = nearest(name, self.variables)
            fix = f"did you mean '{near}'?" if near else fix
            return self._refuse(place, f"the variable '{name}' is not set", fix)
        return value

    def _secret(self, kind: str, rest: str, place: _Place) -> str | None:
        if kind == "env" and _NAME.fullmatch(rest):
            value = os.environ.get(rest)
            if value is None:
                return self._refuse(place, f"the environment variable '{rest}' is not set", "set it before the run")
        elif kind == "file" and rest:
            value = self._file(rest, place)
            if value is None:
                return None
        elif kind == "secret" and rest:
            try:
                value = self.provider.get(rest)
            except NoSecretError as error:
                return self._refuse(place, error.says, error.fix)
        else:
            return self._refuse(place, f"unknown reference '${{{kind[:40]}:...}}'", _FORMS)
        return Secret(value)

    def _file(self, name: str, place: _Place) -> str | None:
        folder = Path(self.reader.document.folder)
        try:
            # Resolve links first: what counts is the real location.
            path = Path(folder, name).resolve(strict=True)
            problem = _check_folder(path, folder) or _find_risk(path.stat())
            text = "" if problem else path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            problem = (getattr(error, "strerror", None) or "not UTF-8 text").lower(), "correct the path or the file"
        if problem:
            return self._refuse(place, f"the secret file '{name}' cannot be used: {problem[0]}", problem[1])
        return text.rstrip("\r\n")

    def _sql(self, text: str, parts: list[str], result: str, place: _Place) -> str:
        # A value may be a name, a number or part of a string, but must never add tokens to the statement.
        if _has_same_tokens(text, parts, result):
            return result
        names = ", ".join(match[0] for match in _REFERENCE.finditer(text))
        says = f"the value of {names} would change the SQL around it"
        self._refuse(place, says, "a variable in SQL is one name, one number or text inside quotes")
        return text

    def _refuse(self, place: _Place, says: str, fix: str) -> str | None:
        at = place.text.locate(place.offset)
        self.reader.report("variable", place.keys, says, fix, at)
        return None


def _is_sql(keys: Keys) -> bool:
    return keys[:1] == ("steps",) and (len(keys) == 2 or keys[2:] == ("sql",))


def _check_folder(path: Path, folder: Path) -> tuple[str, str] | None:
    listed = os.environ.get(FOLDERS, "").split(",")
    allowed = [folder, *(Path(each.strip()) for each in listed if each.strip())]
    if any(path.is_relative_to(each.resolve()) for each in allowed):
        return None
    return "it is outside the pipeline's folder", f"move it there, or add its folder to {FOLDERS}"


def _find_risk(found: os.stat_result) -> tuple[str, str] | None:
    if not stat.S_ISREG(found.st_mode):
        return "it is not a regular file", "give a file"
    if found.st_mode & 0o077:
        return f"others can read it (mode {stat.S_IMODE(found.st_mode):03o})", "run chmod 600 on it"
    if found.st_size > MAX_BYTES:
        return f"it has {found.st_size} bytes, more than {MAX_BYTES}", "give a file that contains only the secret"
    return None


def _has_same_tokens(text: str, parts: list[str], result: str) -> bool:
    from penstock.sql import parse

    # A minus sign is a separate token, and harmless before a number.
    signs = ["-" if part.startswith("-") and _NUMBER.fullmatch(part) else "" for part in parts]
    marks = [f"penstock{at}mark" for at in range(len(parts))]
    waiting = iter(sign + mark for sign, mark in zip(signs, marks, strict=True))
    wanted = [token.text for token in parse(_REFERENCE.sub(lambda _: next(waiting), text)).tokens]
    for sign, mark, part in zip(signs, marks, parts, strict=True):
        wanted = [word.replace(mark, part.removeprefix(sign)) for word in wanted]
    return bool(wanted) and wanted == [token.text for token in parse(result).tokens]


_WRITE = "write 'secrets: {python: \"module:function\"}'"
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
_SECRET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,254}")


class NoSecretError(Exception):
    """A secret is not available; `says` and `fix` are the message."""

    def __init__(self, says: str, fix: str) -> None:
        super().__init__(says)
        self.says, self.fix = says, fix


def check_secrets(reader: Reader) -> None:
    """Report what is wrong with `secrets:`, without calling its function."""
    raw = reader.document.values.get("secrets")
    if raw is None:
        return
    if not isinstance(raw, Mapping):
        reader.report("wrong-type", ("secrets",), f"'secrets' is {show(raw)}, expected a mapping", _WRITE)
        return
    for key in raw:
        if key != "python":
            says = f"'secrets': unknown key {key!r}"
            reader.report("unknown-key", ("secrets", key), says, did_you_mean(str(key), ["python"]))
    if not _is_path(raw.get("python")) and all(key == "python" for key in raw):
        says = f"'secrets' has {show(raw.get('python'))} for 'python', expected module:function"
        reader.report("wrong-value", ("secrets", "python"), says, _WRITE)


@dataclass
class Provider:
    """The function that a document names, called once per secret."""

    document: Document
    _known: dict[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """Fetch a secret by name; a NoSecretError never contains its value."""
        if not _SECRET_NAME.fullmatch(name):
            raise NoSecretError(f"'${{secret:{name[:40]}}}' does not name a secret", "use letters, digits and _ . / -")
        if name not in self._known:
            self._known[name] = self._fetch(name)
        return self._known[name]

    def _fetch(self, name: str) -> str:
        path, function = self._import_function(name)
        try:
            found = function(name)
        except Exception as error:
            # The message of a vault client's error may contain credentials, so show only the type.
            says = f"the secret '{name}' cannot be fetched: {path} raised {type(error).__name__}"
            raise NoSecretError(says, f"call {path} in Python to see why") from error
        if not isinstance(found, str) or not found:
            kind = "no string" if not isinstance(found, str) else "an empty string"
            raise NoSecretError(
                f"{path} returned {kind} for the secret '{name}'", "make it return the secret, or raise an error"
            )
        return found

    def _import_function(self, name: str) -> tuple[str, Callable[[str], Any]]:
        raw = self.document.values.get("secrets")
        path = raw.get("python") if isinstance(raw, Mapping) else None
        if not _is_path(path):
            says = f"no provider for the secret '{name}'"
            raise NoSecretError(says, f"{_WRITE}, a function of the name")
        module, _, function = str(path).partition(":")
        folder = str(Path(self.document.folder).resolve())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            found: Callable[[str], Any] = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            fix = f"put {module}.py next to the file" if error.name == module else f"install {error.name}"
            raise NoSecretError(f"'secrets': no module named {error.name!r}", fix) from error
        except AttributeError as error:
            raise NoSecretError(f"'secrets': {module!r} has no function {function!r}", "correct the name") from error
        except Exception as error:
            raise NoSecretError(
                f"'secrets': importing {module!r} raised {type(error).__name__}", "correct it"
            ) from error
        return str(path), found


def _is_path(value: object) -> bool:
    return isinstance(value, str) and _PATH.fullmatch(value) is not None
