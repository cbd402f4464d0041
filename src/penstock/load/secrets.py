"""`secrets:`: a user function that fetches a secret by name, for example from a vault."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.load.reader import Document, Reader
from penstock.text import did_you_mean, show

_WRITE = "write 'secrets: {python: \"module:function\"}'"
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,254}")


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
        if not _NAME.fullmatch(name):
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
