"""Which pipelines have tests, and which tests those are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.checks import check
from penstock.errors import CallError, LoadError, PenstockError
from penstock.load import load
from penstock.load.files import is_hidden, tests_beside
from penstock.load.reading import Document, Reader
from penstock.load.settings import read_tests
from penstock.load.variables import substitute
from penstock.model import Finding, Location, Pipeline
from penstock.testing.case import Case
from penstock.testing.parse import trials

_YAML = (".yaml", ".yml")
_END = "_test"
_TESTS = re.compile(r"^[\"']?tests[\"']?\s*:", re.MULTILINE)
_SOURCES = re.compile(r"^[\"']?sources[\"']?\s*:", re.MULTILINE)


@dataclass(frozen=True)
class Suite:
    """The tests of one pipeline; without a pipeline or tests, what is wrong with them."""

    file: Path
    pipeline: Pipeline | None
    trials: tuple[Case, ...] = ()
    findings: tuple[Finding, ...] = ()

    def only(self, text: str) -> Suite:
        """The tests whose name has that text in it."""
        return replace(self, trials=tuple(trial for trial in self.trials if text.lower() in trial.name.lower()))

    def changed(self, before: Suite | None, passed: Iterable[str]) -> Suite:
        """The tests that may give another result than before: all of them if the pipeline is another."""
        if before is None or before.pipeline is None or self.pipeline is None:
            return self
        if replace(before.pipeline, tests=()) != replace(self.pipeline, tests=()):
            return self
        same = [trial.said for trial in before.trials if trial.name in set(passed)]
        return replace(self, trials=tuple(trial for trial in self.trials if trial.said not in same))

    @property
    def files(self) -> Iterator[Path]:
        """What the tests depend on: the pipeline, its tests, and the Python beside them."""
        yield self.file
        yield from _tests_of(self.file)
        yield from self.file.parent.glob("*.py")


def discover(paths: Iterable[str | Path]) -> list[Suite]:
    """The tests of files and, of folders, those of every pipeline below them that has some."""
    found: dict[Path, Suite] = {}
    for path in map(Path, paths):
        for file in _pipelines(path):
            if file not in found:
                found[file] = suite(file)
    return list(found.values())


def suite(file: Path) -> Suite:
    """The tests of one pipeline file."""
    try:
        pipeline = _loaded(file)
    except LoadError as error:
        return Suite(file, None, findings=_findings(error))
    wrong = [finding for finding in check(pipeline) if finding.severity == "error"]
    found, misshapen = trials(pipeline)
    findings = (*wrong, *misshapen)
    return Suite(file, pipeline, () if findings else tuple(found), findings)


def pipeline_of(path: Path) -> Path:
    """The pipeline file that a file of tests is about; any other file is its own."""
    if path.suffix not in _YAML or not path.stem.endswith(_END):
        return path
    stem = path.stem.removesuffix(_END)
    beside = [path.with_name(stem + suffix) for suffix in (*_YAML, ".py")]
    return next((each for each in beside if each.is_file()), beside[0])


def has_tests(path: Path) -> bool:
    """Whether a file looks like a pipeline with tests, in it or beside it, at a glance."""
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
        return sorted({pipeline_of(each) for each in seen if has_tests(each) or _is_about_nothing(each)})
    if not path.exists():
        raise CallError(f"there is no file or folder '{path}'; give a pipeline, its tests or a folder")
    return [pipeline_of(path)]


def _is_about_nothing(path: Path) -> bool:
    if path.suffix not in _YAML or not path.stem.endswith(_END) or pipeline_of(path).exists():
        return False
    return bool(_TESTS.search(path.read_text(encoding="utf-8", errors="replace")))


def _tests_of(file: Path) -> list[Path]:
    names = (file.with_name(f"{file.stem}{_END}{suffix}") for suffix in _YAML)
    return [each for each in names if each.is_file()]


def _loaded(file: Path) -> Pipeline:
    if not file.exists() and _tests_of(file):
        says = f"these tests are about '{file.name}', which is not there"
        raise LoadError([Finding("file", Location(str(_tests_of(file)[0])), says, "name the file after its pipeline")])
    pipeline = load(file)
    return _with_tests(pipeline, file) if file.suffix == ".py" else pipeline


def _with_tests(pipeline: Pipeline, file: Path) -> Pipeline:
    """A pipeline said in Python, with the tests of the YAML file beside it."""
    read: Reader = substitute(tests_beside(file, Document({}, str(file), str(file.parent))))
    cases = read_tests(read)
    if read.findings:
        raise LoadError(read.findings)
    return replace(pipeline, tests=cases, places={**pipeline.places, **read.document.places})


def _findings(error: PenstockError) -> tuple[Finding, ...]:
    return tuple(finding for finding in getattr(error, "findings", ()) if isinstance(finding, Finding))
