"""`secrets:`: a function of the user's that fetches a secret by its name, from a vault or anywhere else."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.load.reading import Document, Reader
from penstock.text import did_you_mean, show

_WRITE = "write 'secrets: {python: \"module:function\"}'"
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,254}")


class NoSecretError(Exception):
    """A secret cannot be had; what to say about it, and what to do."""

    def __init__(self, says: str, fix: str) -> None:
        super().__init__(says)
        self.says, self.fix = says, fix


def check_secrets(reading: Reader) -> None:
    """Note what is wrong with `secrets:`; its function is not called."""
    raw = reading.document.values.get("secrets")
    if raw is None:
        return
    if not isinstance(raw, Mapping):
        reading.found("wrong-type", ("secrets",), f"'secrets' is {show(raw)}, expected a mapping", _WRITE)
        return
    for key in raw:
        if key != "python":
            says = f"'secrets' does not know {key!r}"
            reading.found("unknown-key", ("secrets", key), says, did_you_mean(str(key), ["python"]))
    if not _is_path(raw.get("python")) and all(key == "python" for key in raw):
        says = f"'secrets' has {show(raw.get('python'))} for 'python', expected module:function"
        reading.found("wrong-value", ("secrets", "python"), says, _WRITE)


@dataclass
class Provider:
    """The function that a document names, asked once for each secret that its values mention."""

    document: Document
    _known: dict[str, str] = field(default_factory=dict)

    def get(self, name: str) -> str:
        """The secret of that name; NoSecretError says why there is none, never what it is."""
        if not _NAME.fullmatch(name):
            raise NoSecretError(f"'${{secret:{name[:40]}}}' does not name a secret", "use letters, digits and _ . / -")
        if name not in self._known:
            self._known[name] = self._asked(name)
        return self._known[name]

    def _asked(self, name: str) -> str:
        path, function = self._function(name)
        try:
            found = function(name)
        except Exception as error:
            # What a vault's client raises may carry what it sent: its kind is enough to go by.
            says = f"the secret '{name}' cannot be had: {path} raised {type(error).__name__}"
            raise NoSecretError(says, f"call {path} in Python to see why") from error
        if not isinstance(found, str) or not found:
            kind = "no text" if not isinstance(found, str) else "an empty text"
            raise NoSecretError(f"{path} gave {kind} for the secret '{name}'", "let it return the secret, or raise")
        return found

    def _function(self, name: str) -> tuple[str, Callable[[str], Any]]:
        raw = self.document.values.get("secrets")
        path = raw.get("python") if isinstance(raw, Mapping) else None
        if not _is_path(path):
            says = f"nothing says where the secret '{name}' comes from"
            raise NoSecretError(says, f"{_WRITE}, a function that takes the name")
        module, _, function = str(path).partition(":")
        folder = str(Path(self.document.folder).resolve())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        try:
            found: Callable[[str], Any] = getattr(importlib.import_module(module), function)
        except ModuleNotFoundError as error:
            fix = f"put {module}.py beside the file" if error.name == module else f"install {error.name}"
            raise NoSecretError(f"'secrets': there is no module {error.name!r}", fix) from error
        except AttributeError as error:
            raise NoSecretError(f"'secrets': {module!r} has no function {function!r}", "correct the name") from error
        except Exception as error:
            raise NoSecretError(
                f"'secrets': importing {module!r} raised {type(error).__name__}", "correct it"
            ) from error
        return str(path), found


def _is_path(value: object) -> bool:
    return isinstance(value, str) and _PATH.fullmatch(value) is not None
