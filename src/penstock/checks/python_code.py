"""Python code that the file names: its modules, functions and classes, checked without importing them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.checks.modules import Module, Modules, modules_of
from penstock.checks.python_calls import find_misfits
from penstock.connector import Call, UserCode
from penstock.model import Finding, Location, Pipeline, closest
from penstock.text import did_you_mean, nearest

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
