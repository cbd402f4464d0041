"""Python code that the file names: its modules, functions and classes, checked without importing them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature

from penstock.checks.modules import Function, Module, Modules, find_names, modules_of
from penstock.connector import Call, UserCode
from penstock.model import Finding, Location, Pipeline, closest
from penstock.text import did_you_mean, nearest

Names = Mapping[str, ast.AST | None]
"""What the names of a module are bound to."""
SPARK_CLASSES = {
    "StatefulProcessor": ("pyspark.sql.streaming", "pyspark.sql.streaming.stateful_processor"),
    "StreamingQueryListener": ("pyspark.sql.streaming", "pyspark.sql.streaming.listener"),
}
"""Where the classes of Spark are that the user's derive from."""
_EMPTY_CLASSES = {"ABC": ("abc",)}
_VALUES = (ast.Constant, ast.List, ast.Dict, ast.Tuple, ast.Set, ast.JoinedStr)
"""Expressions whose value cannot be called."""
_MAX_BASES = 20


@dataclass(frozen=True)
class Misfit:
    """What does not fit, as the end of a sentence about the code, and what to do."""

    says: str
    fix: str


@dataclass(frozen=True)
class _Class:
    members: dict[str, ast.AST | None]
    """Its own, and those of the classes of its module that it derives from."""
    spark_bases: frozenset[str] = frozenset()
    is_known: bool = True
    """Whether every class that it derives from is known, and nothing defines members at runtime."""


def find_misfits(code: UserCode, names: Names) -> Iterator[Misfit]:
    """What is wrong with a call of the code; nothing where that depends on what its module does when it runs."""
    name = code.path.partition(":")[2]
    definition = names.get(name)
    if isinstance(definition, _VALUES):
        yield Misfit("is a value", f"make it a {'class' if code.is_class else 'function'}")
    elif isinstance(definition, Function) and not definition.decorator_list:
        if code.is_class:
            yield Misfit("is a function", f"make it a class with {_list_methods(code)}")
        else:
            yield from _compare(definition, code.call, is_method=False)
    elif isinstance(definition, ast.ClassDef) and not definition.decorator_list:
        yield from _check_class(code, _read_class(definition, names))


def _list_methods(code: UserCode) -> str:
    needed = [name for name in code.methods if name not in code.optional | code.inherited]
    return " and ".join(_show(name, code.methods[name]) for name in needed)


def _show(name: str, call: Call) -> str:
    return f"{name}({', '.join(('self', *call.arguments))})"


def _check_class(code: UserCode, found: _Class) -> Iterator[Misfit]:
    if code.base and code.is_class and found.is_known and code.base not in found.spark_bases:
        yield Misfit(f"is not a {code.base}", f"derive it from {SPARK_CLASSES[code.base][0]}.{code.base}")
        return
    if found.is_known and "__new__" not in found.members:
        yield from _check_constructor(code.call, found)
    derives = code.base in found.spark_bases
    for name, call in code.methods.items():
        method = found.members.get(name)
        if isinstance(method, Function) and not method.decorator_list:
            yield from _compare(method, call, is_method=True)
        elif name not in found.members and found.is_known and not _may_lack(code, name, derives=derives):
            yield Misfit(f"has no method {name!r}", f"add 'def {_show(name, call)}'")


def _may_lack(code: UserCode, name: str, *, derives: bool) -> bool:
    return name in code.optional or (derives and name in code.inherited)


def _check_constructor(call: Call, found: _Class) -> Iterator[Misfit]:
    constructor = found.members.get("__init__")
    if isinstance(constructor, Function) and not constructor.decorator_list:
        yield from _compare(constructor, call, is_method=True)
    elif "__init__" not in found.members and call.arguments and not found.spark_bases:
        given = ", ".join(call.arguments)
        yield Misfit(f"is a class without '__init__', and it is called with ({given})", "make it a function")


def _compare(function: Function, call: Call, *, is_method: bool) -> Iterator[Misfit]:
    """Whether a function accepts a call."""
    given = [*(["self"] if is_method else []), *call.arguments]
    named = f"method {function.name!r} " if is_method else ""
    write = f"write 'def {function.name}({', '.join(given)})'"
    if isinstance(function, ast.AsyncFunctionDef):
        yield Misfit(f"{named}is 'async', and nothing awaits it", write)
        return
    positional = [name for name in given if not call.by_name or name == "self"]
    try:
        _signature(function.args).bind(*positional, **dict.fromkeys(given[len(positional) :]))
    except TypeError as error:
        arguments = ", ".join(call.arguments)
        how = "by name with " if call.by_name else "with "
        says = f"{named}is called {how}{f'({arguments})' if arguments else 'no arguments'}: {error}"
        yield Misfit(says, write)


def _signature(arguments: ast.arguments) -> Signature:
    positional = [
        *((each.arg, Parameter.POSITIONAL_ONLY) for each in arguments.posonlyargs),
        *((each.arg, Parameter.POSITIONAL_OR_KEYWORD) for each in arguments.args),
    ]
    needed = len(positional) - len(arguments.defaults)
    parameters = [
        Parameter(name, kind, default=Parameter.empty if number < needed else None)
        for number, (name, kind) in enumerate(positional)
    ]
    if arguments.vararg:
        parameters.append(Parameter(arguments.vararg.arg, Parameter.VAR_POSITIONAL))
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        empty = Parameter.empty if default is None else None
        parameters.append(Parameter(each.arg, Parameter.KEYWORD_ONLY, default=empty))
    if arguments.kwarg:
        parameters.append(Parameter(arguments.kwarg.arg, Parameter.VAR_KEYWORD))
    return Signature(parameters)


def _read_class(definition: ast.ClassDef, names: Names, depth: int = 0) -> _Class:
    own = find_names(definition.body)
    bases = [_read_base(base, names, depth) for base in definition.bases]
    members: dict[str, ast.AST | None] = {}
    for each in reversed(bases):
        members |= each.members
    spark_bases = frozenset(name for each in bases for name in each.spark_bases)
    is_known = all(each.is_known for each in bases) and not definition.keywords and "__getattr__" not in own
    return _Class(members | own, spark_bases, is_known)


def _read_base(base: ast.expr, names: Names, depth: int) -> _Class:
    unknown = _Class({}, is_known=False)
    if isinstance(base, ast.Attribute):
        is_spark = base.attr in SPARK_CLASSES and _is_of_spark(base, names)
        return _Class({}, frozenset({base.attr})) if is_spark else unknown
    if not isinstance(base, ast.Name) or depth > _MAX_BASES:
        return unknown
    if base.id == "object" and "object" not in names:
        return _Class({})
    definition = names.get(base.id)
    if isinstance(definition, ast.ClassDef) and not definition.decorator_list:
        return _read_class(definition, names, depth + 1)
    imported = _imported_name(base.id, definition)
    if imported in SPARK_CLASSES:
        return _Class({}, frozenset({imported}))
    return _Class({}) if imported in _EMPTY_CLASSES else unknown


def _is_of_spark(attribute: ast.Attribute, names: Names) -> bool:
    """Whether `a.b.C` begins with something that is imported from pyspark."""
    root: ast.expr = attribute
    while isinstance(root, ast.Attribute):
        root = root.value
    statement = names.get(root.id) if isinstance(root, ast.Name) else None
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0] == "pyspark"
    return isinstance(statement, ast.Import) and all(each.name.startswith("pyspark") for each in statement.names)


def _imported_name(name: str, statement: ast.AST | None) -> str:
    """The class of Spark or of Python that a statement imports as `name`; empty if it is another."""
    if not isinstance(statement, ast.ImportFrom) or statement.level:
        return ""
    original = next((each.name for each in statement.names if (each.asname or each.name) == name), "")
    places = {**SPARK_CLASSES, **_EMPTY_CLASSES}.get(original, ())
    return original if statement.module in places else ""


_LISTENER_CALLS = ("onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated")


@dataclass(frozen=True)
class _Use:
    """A place of the file that names code."""

    who: str
    at: Location
    code: UserCode

    @property
    def module(self) -> str:
        return self.code.path.partition(":")[0]

    @property
    def name(self) -> str:
        return self.code.path.partition(":")[2]


def modules_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """A Python module that the file names is next to it, or installed."""
    modules = modules_of(pipeline)
    for use in _uses(pipeline):
        if modules.find(use.module) is None:
            fix = _suggest_module(use.module, modules)
            yield Finding("modules-exist", use.at, f"{use.who}: no module {use.module!r}", fix)


def _suggest_module(name: str, modules: Modules) -> str:
    if not all(name.split(".")):
        return "write 'module:name', with dots between the names of packages"
    near = nearest(name, modules.list_names(name))
    path = name.replace(".", "/")
    return f"did you mean {near!r}?" if near else f"put {path}.py next to the pipeline file, or install it"


def modules_parse(pipeline: Pipeline) -> Iterator[Finding]:
    """A Python module that the file names is readable and valid Python."""
    for use in _uses(pipeline):
        module = modules_of(pipeline).find(use.module)
        if module is not None and module.problem is not None:
            says = f"the module {use.module!r} {module.problem.says}"
            yield Finding("modules-parse", module.problem.at, says, module.problem.fix)


def objects_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """A function or class that the file names is defined in its module."""
    for use, module in _readable(pipeline):
        names = module.names or {}
        if use.name not in names and modules_of(pipeline).find(f"{use.module}.{use.name}") is None:
            says = f"{use.who}: the module {use.module!r} does not define {use.name!r}"
            fix = did_you_mean(use.name, (name for name in names if not name.startswith("_")))
            yield Finding("objects-exist", use.at, says, fix or "define it there")


def functions_fit(pipeline: Pipeline) -> Iterator[Finding]:
    """A function or class that the file names can be called as Penstock calls it."""
    for use, module in _readable(pipeline):
        for misfit in find_misfits(use.code, module.names or {}):
            yield Finding("functions-fit", use.at, f"{use.who}: {use.code.path} {misfit.says}", misfit.fix)


def _readable(pipeline: Pipeline) -> Iterator[tuple[_Use, Module]]:
    """The uses of modules whose names are known."""
    for use in _uses(pipeline):
        module = modules_of(pipeline).find(use.module)
        if module is not None and module.names is not None:
            yield use, module


def _uses(pipeline: Pipeline) -> Iterator[_Use]:
    for step in pipeline.steps:
        for code in step.what.user_code:
            yield _Use(f"step {step.name!r}", pipeline.where(step, step.what.kind, code.option), code)
    for source in pipeline.sources:
        for code in source.connector.user_code:
            at = pipeline.where(source, source.connector.kind, code.option)
            yield _Use(f"source {source.name!r}", at, code)
    for sink in pipeline.sinks:
        for target in sink.targets:
            for code in target.connector.user_code:
                yield _Use(f"sink {sink.name!r}", pipeline.where(sink, *target.keys, code.option), code)
    for number, path in enumerate(pipeline.listeners):
        at = closest(pipeline.places, ("listeners", number), 1) or pipeline.at
        yield _Use("listeners", at, _listener_code(path))


def _listener_code(path: str) -> UserCode:
    methods = dict.fromkeys(_LISTENER_CALLS, Call(("event",)))
    return UserCode("", path, methods=methods, base="StreamingQueryListener", inherited=frozenset({"onQueryIdle"}))
