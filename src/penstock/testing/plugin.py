"""For pytest: tests in YAML files are collected as they are, and Python tests get a bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

# Its assertions explain themselves only if pytest reads the module before it is imported.
pytest.register_assert_rewrite("penstock.testing.connectors")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model import Pipeline
    from penstock.testing.bench import Bench, Freezable
    from penstock.testing.case import Case
    from penstock.testing.result import Result
    from penstock.testing.suites import Suite

_SUFFIXES = (".yaml", ".yml")


class FailedTrial(Exception):  # noqa: N818
    """A test of a pipeline found what it did not expect."""

    def __init__(self, outcome: Result) -> None:
        super().__init__(outcome.text)
        self.outcome = outcome


class PipelineFile(pytest.File):
    """A file with tests of a pipeline."""

    def collect(self) -> Iterator[pytest.Item]:
        """The tests that are written in this file; those beside it are collected from theirs."""
        from penstock.testing.suites import pipeline_of, suite

        found = suite(_shortest(pipeline_of(self.path)))
        if found.findings:
            raise self.CollectError("\n".join(map(str, found.findings)))
        for trial in found.trials:
            if Path(trial.at.file).resolve() == self.path.resolve():
                yield PipelineItem.from_parent(self, name=trial.name, suite=found, trial=trial)


class PipelineItem(pytest.Item):
    """One test of a pipeline."""

    def __init__(self, *, suite: Suite, trial: Case, **rest: Any) -> None:
        super().__init__(**rest)
        self.suite = suite
        self.trial = trial

    def runtest(self) -> None:
        """Run it in the session that all tests share."""
        from penstock.testing.result import run

        assert self.suite.pipeline is not None
        outcome = run(self.trial, self.suite.pipeline, _shared(self.config).spark(self.suite.pipeline))
        if not outcome.passed:
            raise FailedTrial(outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The difference, without Python's traceback."""
        if isinstance(excinfo.value, FailedTrial):
            return excinfo.value.outcome.text
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file and the line of the test."""
        return self.path, self.trial.at.line - 1, self.name


class _Shared:
    """The session of all tests, made when the first one needs it."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._spark: SparkSession | None = None

    def spark(self, pipeline: Pipeline) -> SparkSession:
        """The session; its jars are those that are on this machine and those that the first pipeline needs."""
        from penstock.testing.spark import groups_at_hand, quick_session

        if self._spark is None:
            self._spark = self._open.enter_context(quick_session([*pipeline.jar_groups, *groups_at_hand()]))
        return self._spark

    def close(self) -> None:
        """End the session, if it was made here."""
        self._open.close()


_KEY = pytest.StashKey[_Shared]()


def _shared(config: pytest.Config) -> _Shared:
    return config.stash.setdefault(_KEY, _Shared())


def _shortest(path: Path) -> Path:
    # As the user would write it: places in messages are relative to where pytest was called.
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> PipelineFile | None:
    """Files of tests, and pipelines with tests in them."""
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
    from penstock.testing.suites import pipeline_of

    return pipeline_of(path).exists()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session."""
    if _KEY in config.stash:
        config.stash[_KEY].close()


@pytest.fixture
def penstock_bench(request: pytest.FixtureRequest) -> Iterator[Callable[..., Bench]]:
    """A bench for a pipeline: `bench = penstock_bench(pipeline)`, then feed, rows, advance, restart and crash."""
    from penstock.testing.bench import Bench

    with ExitStack() as benches:

        def bench(pipeline: Pipeline | Freezable, **settings: Any) -> Bench:
            frozen: Any = pipeline if not hasattr(pipeline, "freeze") else pipeline.freeze()
            return benches.enter_context(Bench(frozen, _shared(request.config).spark(frozen), **settings))

        yield bench
