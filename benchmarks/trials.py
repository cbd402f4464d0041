"""penstock test: seconds for a test in a warm session, and from a save to its result."""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from penstock.cli.test import Asked, Last, follow, run_suites
from penstock.testing.spark import groups_at_hand, quick_session

EXAMPLES = ("trades", "sensors", "ads", "clickstream")
SAVES = 5


def main() -> None:
    """Run as a process of its own: it has its own session."""
    with tempfile.TemporaryDirectory() as folder, quick_session(groups_at_hand()) as spark:
        for name in EXAMPLES:
            shutil.copytree(Path("examples", name), Path(folder, name))
        asked = Asked((folder,))
        suites = asked.suites()
        run_suites(suites, spark, lambda _: None)
        began = time.perf_counter()
        outcomes = run_suites(suites, spark, lambda _: None)
        each = (time.perf_counter() - began) / len(outcomes)
        saved = _saves(Path(folder), asked, Last(suites, outcomes), spark)
    print(f"{each:.3f} {saved:.3f} {len(outcomes)}")
    sys.exit(not all(outcome.passed for outcome in outcomes))


def _saves(folder: Path, asked: Asked, last: Last, spark: object) -> float:
    """Another amount in the first test of trades, again and again."""
    tests = folder / "trades" / "trades_test.yaml"
    moments: list[float] = []

    def waited() -> bool:
        moments.append(time.perf_counter())
        text = tests.read_text()
        number = len(moments)
        tests.write_text(text.replace("name: ", f"name: {number} ", 1) if number == 1 else _renamed(text, number))
        return number <= SAVES

    follow(asked, spark, waited, last)  # type: ignore[arg-type]
    return statistics.median(after - before for before, after in itertools.pairwise(moments))


def _renamed(text: str, number: int) -> str:
    return text.replace(f"name: {number - 1} ", f"name: {number} ", 1)


if __name__ == "__main__":
    main()
