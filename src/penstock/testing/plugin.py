"""The pytest plugin: collects tests of YAML files, and provides a bench for Python tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Before its first import, or its assertions would fail without details.
pytest.register_assert_rewrite("penstock.testing.connectors")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model import Pipeline
    from penstock.testing.bench import Bench, Freezable
    from penstock.testing.case import Case
    from penstock.testing.result import Result
    from penstock.testing.suites import Suite

_SUFFIXES = (".yaml", ".yml")


class FailedCase(Exception):  # noqa: N818
    """A test of a pipeline failed."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.text)
        self.result = result


class PipelineFile(pytest.File):
    """A file with tests of a pipeline."""

    def collect(self) -> Iterator[pytest.Item]:
        """The tests of this file; those of its companion file are collected there."""
        from penstock.load.files import pipeline_of
        from penstock.testing.suites import suite

        found = suite(_shortest(pipeline_of(self.path)))
        if found.findings:
            raise self.CollectError("\n".join(map(str, found.findings)))
        for case in found.cases:
            if Path(case.at.file).resolve() == self.path.resolve():
                yield PipelineItem.from_parent(self, name=case.name, suite=found, case=case)


class PipelineItem(pytest.Item):
    """One test of a pipeline."""

    def __init__(self, *, suite: Suite, case: Case, **rest: Any) -> None:
        super().__init__(**rest)
        self.suite = suite
        self.case = case

    def runtest(self) -> None:
        """Run it in the shared session."""
        from penstock.testing.result import run

        assert self.suite.pipeline is not None
        result = run(self.case, self.suite.pipeline, _session(self.config).spark(self.suite.pipeline))
        if not result.passed:
            raise FailedCase(result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The difference, without Python's traceback."""
        if isinstance(excinfo.value, FailedCase):
            return excinfo.value.result.text
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file and the line of the test."""
        return self.path, self.case.at.line - 1, self.name


class _SharedSession:
    """The session of all tests, created when first needed."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._spark: SparkSession | None = None

    def spark(self, pipeline: Pipeline) -> SparkSession:
        """The session, with the jars of this machine and those that the first pipeline needs."""
        from penstock.testing.spark import groups_at_hand, quick_session

        if self._spark is None:
            self._spark = self._open.enter_context(quick_session([*pipeline.jar_groups, *groups_at_hand()]))
        return self._spark

    def close(self) -> None:
        """Stop the session, if it was created here."""
        self._open.close()


_KEY = pytest.StashKey[_SharedSession]()


def _session(config: pytest.Config) -> _SharedSession:
    return config.stash.setdefault(_KEY, _SharedSession())


def _shortest(path: Path) -> Path:
    # Locations in messages are relative to where pytest was called.
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> PipelineFile | None:
    """Collect files of tests, and pipelines with tests."""
    if file_path.suffix not in _SUFFIXES:
        return None
    try:
        text = file_path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    keys = {line.partition(":")[0].strip("\"' ") for line in text.splitlines() if line[:1] not in (" ", "#", "-")}
    if "tests" not in keys or not ("sources" in keys or file_path.stem.endswith("_test")):
        return None
    if "sources" not in keys and not _has_pipeline(file_path):
        return None
    return PipelineFile.from_parent(parent, path=file_path)


def _has_pipeline(path: Path) -> bool:
    from penstock.load.files import pipeline_of

    return pipeline_of(path).exists()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the shared session."""
    if _KEY in config.stash:
        config.stash[_KEY].close()


@pytest.fixture
def penstock_bench(request: pytest.FixtureRequest) -> Iterator[Callable[..., Bench]]:
    """A bench for a pipeline: `bench = penstock_bench(pipeline)`, then feed, rows, advance, restart and crash."""
    from penstock.testing.bench import Bench

    with ExitStack() as benches:

        def bench(pipeline: Pipeline | Freezable, **settings: Any) -> Bench:
            frozen: Any = pipeline if not hasattr(pipeline, "freeze") else pipeline.freeze()
            return benches.enter_context(Bench(frozen, _session(request.config).spark(frozen), **settings))

        yield bench
