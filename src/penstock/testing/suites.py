"""Finds pipelines with tests and loads the tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.checks import check
from penstock.errors import CallError, LoadError, PenstockError
from penstock.load import load
from penstock.load.files import add_test_file, is_hidden, pipeline_of
from penstock.load.reader import Document, Reader
from penstock.load.settings import read_tests
from penstock.load.variables import substitute
from penstock.model import Finding, Location, Pipeline, errors
from penstock.testing.case import Case
from penstock.testing.parse import parse_cases

_YAML = (".yaml", ".yml")
_END = "_test"
_TESTS = re.compile(r"^[\"']?tests[\"']?\s*:", re.MULTILINE)
_SOURCES = re.compile(r"^[\"']?sources[\"']?\s*:", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """The tests of one pipeline, or the findings that keep them from running."""

    file: Path
    pipeline: Pipeline | None
    cases: tuple[Case, ...] = ()
    findings: tuple[Finding, ...] = ()

    def filter(self, text: str) -> Suite:
        """The suite with only the tests whose name contains the text."""
        return replace(self, cases=tuple(case for case in self.cases if text.lower() in case.name.lower()))

    def select_for_rerun(self, before: Suite | None, passed: Iterable[str]) -> Suite:
        """The suite with the tests that failed or changed since; all of them if the pipeline changed."""
        if before is None or before.pipeline is None or self.pipeline is None:
            return self
        if replace(before.pipeline, tests=()) != replace(self.pipeline, tests=()):
            return self
        same = [case.raw for case in before.cases if case.name in set(passed)]
        return replace(self, cases=tuple(case for case in self.cases if case.raw not in same))

    @property
    def files(self) -> Iterator[Path]:
        """The files that the tests depend on: the pipeline, its tests, and the Python modules in its folder."""
        yield self.file
        yield from _tests_of(self.file)
        yield from self.file.parent.glob("*.py")


def discover(paths: Iterable[str | Path]) -> list[Suite]:
    """The suites of files, and of all pipelines with tests below folders."""
    found: dict[Path, Suite] = {}
    for path in map(Path, paths):
        for file in _pipelines(path):
            if file not in found:
                found[file] = suite(file)
    return list(found.values())


def suite(file: Path) -> Suite:
    """The suite of one pipeline file."""
    try:
        pipeline = _load(file)
    except LoadError as error:
        return Suite(file, None, findings=_findings(error))
    cases, malformed = parse_cases(pipeline)
    findings = (*errors(check(pipeline)), *malformed)
    return Suite(file, pipeline, () if findings else tuple(cases), findings)


def has_tests(path: Path) -> bool:
    """A quick guess whether a file is a pipeline with tests, in the file or next to it."""
    if path.suffix not in (*_YAML, ".py") or path.stem.endswith(_END):
        return False
    if _tests_of(path):
        return True
    try:
        text = path.read_text(encoding="utf-8") if path.suffix in _YAML else ""
    except (OSError, UnicodeDecodeError):
        return False
    return bool(_TESTS.search(text) and _SOURCES.search(text))


def _pipelines(path: Path) -> list[Path]:
    if path.is_dir():
        files = (each for suffix in (*_YAML, ".py") for each in path.rglob(f"*{suffix}"))
        seen = (each for each in files if not any(map(is_hidden, each.relative_to(path).parts)))
        return sorted({pipeline_of(each) for each in seen if has_tests(each) or _is_orphan(each)})
    if not path.exists():
        raise CallError(f"'{path}' does not exist; give a pipeline, its tests or a folder")
    return [pipeline_of(path)]


def _is_orphan(path: Path) -> bool:
    if path.suffix not in _YAML or not path.stem.endswith(_END) or pipeline_of(path).exists():
        return False
    return bool(_TESTS.search(path.read_text(encoding="utf-8", errors="replace")))


def _tests_of(file: Path) -> list[Path]:
    names = (file.with_name(f"{file.stem}{_END}{suffix}") for suffix in _YAML)
    return [each for each in names if each.is_file()]


def _load(file: Path) -> Pipeline:
    if not file.exists() and _tests_of(file):
        says = f"these tests are for '{file.name}', which does not exist"
        raise LoadError([Finding("file", Location(str(_tests_of(file)[0])), says, "name the file after its pipeline")])
    pipeline = load(file)
    return _with_tests(pipeline, file) if file.suffix == ".py" else pipeline


def _with_tests(pipeline: Pipeline, file: Path) -> Pipeline:
    """A pipeline of a Python file, with the tests of the YAML file next to it."""
    read: Reader = substitute(add_test_file(file, Document({}, str(file), str(file.parent))))
    cases = read_tests(read)
    if read.findings:
        raise LoadError(read.findings)
    return replace(pipeline, tests=cases, places={**pipeline.places, **read.document.places})


def _findings(error: PenstockError) -> tuple[Finding, ...]:
    return tuple(finding for finding in getattr(error, "findings", ()) if isinstance(finding, Finding))
