"""Asks `penstock check` and Spark about generated pipelines, and shows where they differ.

python -m tests.agreement.compare [--count N] [--seed S] [--out FILE] [--first N]
python -m tests.agreement.compare --read FILE      the summary of an earlier run, without Spark
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.agreement.oracle import verdict
from tests.agreement.pipelines import generate

from penstock.checks import check
from penstock.errors import LoadError
from penstock.load import load
from penstock.model import Finding, Pipeline
from penstock.spark.errors import error_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rules about what Spark would run: what a replay does, and what Penstock's connectors do not offer.
BEYOND_SPARK = frozenset(
    {
        "keys-come-again",
        "mode-fits-sink",
        "sinks-do-not-feed-sources",
        "sinks-write-apart",
        "sql-calls-no-java",
        "sql-stays-as-written",
        "storage-is-no-input",
        "targets-can-share",
    }
)
#: Rules about what Spark refuses in the first batch only: `tests.agreement.running` compares them.
IN_FIRST_BATCH = frozenset({"state-has-one-event-time", "watermark-is-set-once"})
_WHERE = re.compile(r"^(?:source|step|sink) '\w+'(?: for sink '\w+' \(mode \w+\))?: ")
_NAME = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"|\b\w*#\d+\w*|\d+")


@dataclass(frozen=True)
class Comparison:
    """What both said about one pipeline."""

    seed: str
    parts: tuple[str, ...]
    rules: list[str]
    """Our rules, warnings included."""
    messages: list[str]
    """Our errors."""
    error_rules: list[str]
    spark: str
    text: str
    has_run: bool = False
    """Whether Spark's verdict is from a run."""

    @property
    def outcome(self) -> str:
        """Whether both agree, and if not, who is stricter."""
        if "not-loaded" in self.rules:
            return "not loaded"
        if bool(self.error_rules) == bool(self.spark):
            return "agree: both refuse" if self.spark else "agree: both accept"
        if self.spark:
            return "false accept"
        if BEYOND_SPARK.issuperset(self.error_rules):
            return "beyond Spark"
        is_later = not self.has_run and (BEYOND_SPARK | IN_FIRST_BATCH).issuperset(self.error_rules)
        return "in the first batch" if is_later else "false alarm"

    @property
    def reasons(self) -> list[str]:
        """What to group it by: Spark's error class, or our rules."""
        if self.outcome == "false accept":
            return [reason(self.spark)]
        return sorted(set(self.error_rules))


def reason(says: str) -> str:
    """Spark's error class, or the beginning of its sentence without names."""
    without_names = _NAME.sub("_", _WHERE.sub("", says))
    return error_class(says) or without_names[:90]


def compare(spark: SparkSession, seed: str, folder: Path) -> Comparison:
    """Generate one pipeline and ask both."""
    asked, pipeline = ask_check(seed, folder)
    if pipeline is None:
        return asked
    empty = folder / "empty"
    empty.mkdir()
    says = _ask_spark(spark, pipeline, empty)
    spark.catalog.clearCache()
    return replace(asked, spark=says)


def ask_check(seed: str, folder: Path) -> tuple[Comparison, Pipeline | None]:
    """Generate one pipeline and ask `check`; None if it cannot be loaded."""
    generated = generate(random.Random(seed))
    file = folder / "pipeline.yaml"
    file.write_text(generated.text)
    try:
        pipeline = load(file)
    except LoadError as error:
        asked = Comparison(seed, generated.parts, ["not-loaded"], [str(error)], ["not-loaded"], "", generated.text)
        return asked, None
    findings = _check(pipeline)
    errors = [finding for finding in findings if finding.severity == "error"]
    rules, error_rules = [finding.rule for finding in findings], [finding.rule for finding in errors]
    asked = Comparison(seed, generated.parts, rules, [e.says for e in errors], error_rules, "", generated.text)
    return asked, pipeline


def _ask_spark(spark: SparkSession, pipeline: Pipeline, folder: Path) -> str:
    try:
        return verdict(spark.newSession(), pipeline, folder)
    except Exception as error:
        return f"oracle raised {type(error).__name__}: {error}"


def _check(pipeline: Pipeline) -> list[Finding]:
    try:
        return check(pipeline)
    except Exception as error:
        # Findings of other pipelines are worth more than the end of the run.
        return [Finding("check-raised", pipeline.at, f"{type(error).__name__}: {error}")]


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    from penstock.spark.session import session

    asked = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }
    spark = session("agreement", master="local[1]", asked=asked, jars=(), log=folder / "spark.log")
    try:
        yield spark
    finally:
        spark.stop()


def run(count: int, seed: str, out: Path | None, first: int = 0) -> list[Comparison]:
    """Compare `count` pipelines in one session, or those from `first` on; each is added to `out` as a line of JSON."""
    done: list[Comparison] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="agreement-") as name, _session(Path(name)) as spark:
        lines = out.open("a" if first else "w") if out else None
        for number in range(first, count):
            folder = Path(name, str(number))
            folder.mkdir()
            found = compare(spark, f"{seed}-{number}", folder)
            done.append(found)
            if lines:
                print(json.dumps({"outcome": found.outcome, **asdict(found)}), file=lines, flush=True)
            if (number + 1) % 100 == 0:
                print(f"{number + 1} of {count}, {time.monotonic() - began:.0f} seconds", flush=True)
        if lines:
            lines.close()
    return done


def summarize(done: Iterable[Comparison]) -> Iterator[str]:
    """Counts, then each kind of difference with an example."""
    done = list(done)
    outcomes = Counter(each.outcome for each in done)
    yield f"Spark accepts {sum(not each.spark for each in done)} of {len(done)}"
    yield "\n".join(f"{count:6} {outcome}" for outcome, count in sorted(outcomes.items()))
    yield from _both_refuse(done)
    for outcome in ("not loaded", "false accept", "false alarm", "beyond Spark", "in the first batch"):
        groups: dict[str, list[Comparison]] = defaultdict(list)
        for each in done:
            if each.outcome == outcome:
                for name in each.reasons:
                    groups[name].append(each)
        if groups:
            yield f"\n== {outcome} =="
        for name, found in sorted(groups.items(), key=lambda group: -len(group[1])):
            example = min(found, key=lambda each: len(each.text))
            says = example.spark or "; ".join(example.messages)
            yield f"\n{len(found)} × {name}\n  {says}\n  seed {example.seed}\n{_indent(example.text)}"


def _both_refuse(done: list[Comparison]) -> Iterator[str]:
    """Spark's reasons beside our rules: both may refuse the same pipeline for different reasons."""
    pairs: dict[str, Counter[str]] = defaultdict(Counter)
    for each in done:
        if each.outcome == "agree: both refuse":
            pairs[reason(each.spark)].update(set(each.error_rules))
    if pairs:
        yield "\n== both refuse: Spark's reason, our rules =="
    for name, rules in sorted(pairs.items()):
        yield f"  {name}\n      {', '.join(f'{count} × {rule}' for rule, count in rules.most_common())}"


def read(file: Path) -> list[Comparison]:
    """The comparisons that a run has written."""
    names = {each.name for each in fields(Comparison)}
    records = [json.loads(line) for line in file.read_text().splitlines()]
    return [Comparison(**{key: value for key, value in record.items() if key in names}) for record in records]


def _indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--first", type=int, default=0, help="continue an earlier run")
    parser.add_argument("--read", type=Path)
    arguments = parser.parse_args()
    if arguments.read:
        done = read(arguments.read)
    else:
        done = run(arguments.count, arguments.seed, arguments.out, arguments.first)
    for line in summarize(done):
        print(line)


if __name__ == "__main__":
    main()
