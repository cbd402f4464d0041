"""Python modules that a pipeline file names: found and parsed, never imported, because an import runs their code."""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import islice
from pathlib import Path

from penstock.model import Location, Pipeline

_MAX_BYTES = 1_000_000
"""A larger file is generated, and takes seconds to parse."""
_MAX_LISTED = 1_000
_KEPT = "_modules"
_DYNAMIC_NAMES = frozenset({"exec", "globals", "locals", "vars", "setattr"})
_DYNAMIC_ATTRIBUTES = frozenset({"__dict__", "modules"})
"""What code uses to define names at runtime, `sys.modules` included."""
_TRIES = (ast.Try, *([ast.TryStar] if hasattr(ast, "TryStar") else []))
_NESTING = (ast.If, ast.For, ast.While, ast.With, ast.Match, *_TRIES)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Problem:
    """Why Python cannot import a file, and where."""

    at: Location
    says: str
    fix: str


@dataclass(frozen=True)
class Module:
    """What is known of a module; without names and problem only that it exists."""

    names: dict[str, ast.AST | None] | None = None
    """What each name of the top level is bound to, None if that is not one definition; None if unknown."""
    problem: Problem | None = None


@dataclass(frozen=True)
class Modules:
    """The modules that are importable by a pipeline, each read once."""

    folder: Path
    known: dict[str, Module | None] = field(default_factory=dict)

    def find(self, name: str) -> Module | None:
        """The module; None if there is none."""
        if name not in self.known:
            self.known[name] = _find(self.folder, name)
        return self.known[name]

    def list_names(self, name: str) -> list[str]:
        """The modules next to the pipeline file and, for a dotted name, in its package."""
        package = name.rpartition(".")[0]
        inner = _list_modules(self.folder.joinpath(*package.split("."))) if package else []
        return [*_list_modules(self.folder), *(f"{package}.{each}" for each in inner)]


def modules_of(pipeline: Pipeline) -> Modules:
    """The modules of a pipeline; the same object for every rule."""
    kept: Modules | None = pipeline.__dict__.get(_KEPT)
    if kept is None:
        # As a cached property does it: a pipeline is frozen and knows nothing of modules.
        kept = pipeline.__dict__[_KEPT] = Modules(Path(pipeline.folder))
    return kept


def _find(folder: Path, name: str) -> Module | None:
    first, *inner = name.split(".")
    if not all((first, *inner)):
        return None
    if first in sys.stdlib_module_names:
        # Python has imported most of them already, so a file of the same name is not used.
        return Module()
    found = _descend(folder, [first, *inner])
    if found is not None:
        return _read(found) if found.suffix == ".py" else Module()
    is_here = _is_package(folder / first) or _is_file(folder / f"{first}.py")
    return None if is_here else _find_package(first)


def _find_package(name: str) -> Module | None:
    """A module elsewhere on Python's path, by its first name: looking for an inner one would import the package."""
    return Module() if name in sys.modules or importlib.util.find_spec(name) is not None else None


def _descend(folder: Path, parts: Sequence[str]) -> Path | None:
    """The file or the folder of a module in a folder; as in Python, a package comes before a file."""
    path = folder.joinpath(*parts)
    if _is_package(path):
        return path / "__init__.py"
    files = (path.with_name(path.name + ending) for ending in (*EXTENSION_SUFFIXES, ".py"))
    found = next(filter(_is_file, files), None)
    if found is not None:
        return found
    # A folder without __init__.py is a namespace package, but only if Python finds no module of that name.
    is_namespace = _is_folder(path) and (len(parts) > 1 or _find_package(parts[0]) is None)
    return path if is_namespace else None


def _is_package(path: Path) -> bool:
    return _is_file(path / "__init__.py")


def _is_file(path: Path) -> bool:
    return _test(path.is_file)


def _is_folder(path: Path) -> bool:
    return _test(path.is_dir)


def _test(property_of_path: Callable[[], bool]) -> bool:
    try:
        return property_of_path()
    except OSError:
        # No access, or a name that is too long: an import finds nothing there either.
        return False


def _list_modules(folder: Path) -> list[str]:
    """The modules of a folder for a suggestion; none if it cannot be listed."""
    if not _is_folder(folder) or not os.access(folder, os.R_OK | os.X_OK):
        return []
    found = list(islice(folder.iterdir(), _MAX_LISTED))
    files = [each.stem for each in found if each.suffix == ".py" and each.stem != "__init__" and _is_file(each)]
    return [*files, *(each.name for each in found if _is_package(each))]


def _read(path: Path) -> Module:
    file = str(path)
    at = Location(file)
    try:
        with path.open("rb") as opened:
            data = opened.read(_MAX_BYTES + 1)
    except OSError as error:
        return Module(problem=Problem(at, f"cannot be read: {error.strerror}", "make it readable"))
    if len(data) > _MAX_BYTES:
        return Module()
    try:
        tree = _parse(data, file)
    except SyntaxError as error:
        return Module(problem=_describe(error, file))
    except ValueError as error:
        # Before Python 3.12, of a null byte.
        return Module(problem=Problem(at, f"is not valid Python: {error}", "correct it"))
    except (RecursionError, MemoryError):
        # Nested too deeply to be parsed here; Python may have more stack when it imports the file.
        return Module()
    return Module(None if _is_dynamic(tree) else find_names(tree.body))


def _parse(data: bytes, file: str) -> ast.Module:
    with warnings.catch_warnings():
        # Such as invalid escapes in strings, which the import reports.
        warnings.simplefilter("ignore")
        tree = ast.parse(data, file)
        # Finds what the grammar allows, such as `return` outside of a function; nothing is run.
        compile(tree, file, "exec", dont_inherit=True)
    return tree


def _describe(error: SyntaxError, file: str) -> Problem:
    at = Location(file, max(error.lineno or 1, 1), max(error.offset or 1, 1))
    return Problem(at, f"is not valid Python: {error.msg}", "correct it")


def _is_dynamic(tree: ast.Module) -> bool:
    """Whether names may be defined that are not in the text."""
    return any(
        (isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names))
        or (isinstance(node, ast.Name) and node.id in _DYNAMIC_NAMES)
        or (isinstance(node, ast.Attribute) and node.attr in _DYNAMIC_ATTRIBUTES)
        or (isinstance(node, Function) and node.name == "__getattr__" and node in tree.body)
        for node in ast.walk(tree)
    )


def find_names(body: Sequence[ast.stmt]) -> dict[str, ast.AST | None]:
    """What statements bind each name to: a definition or an import; None if several do, or something else."""
    found: dict[str, ast.AST | None] = {}
    for name, what in _bindings(body, sure=True):
        found[name] = None if name in found else what
    return found


def _bindings(body: Sequence[ast.AST], *, sure: bool) -> Iterator[tuple[str, ast.AST | None]]:
    for each in body:
        if isinstance(each, Function | ast.ClassDef):
            yield each.name, each if sure else None
            # `global` in a function binds a name of the module when it is called.
            yield from ((name, None) for node in ast.walk(each) if isinstance(node, ast.Global) for name in node.names)
        elif isinstance(each, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name.partition(".")[0], each) for alias in each.names)
        elif isinstance(each, _NESTING):
            yield from _bindings(list(ast.iter_child_nodes(each)), sure=False)
        elif isinstance(each, ast.ExceptHandler):
            yield from _bindings(each.body, sure=False)
        elif isinstance(each, ast.match_case):
            yield from _assignments(each.pattern)
            yield from _bindings(each.body, sure=False)
        else:
            yield from _assignments(each)


def _assignments(node: ast.AST) -> Iterator[tuple[str, ast.AST | None]]:
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load):
            yield each.id, value
        elif isinstance(each, ast.MatchAs | ast.MatchStar) and each.name:
            yield each.name, None
