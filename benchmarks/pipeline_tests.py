"""penstock test: seconds for a test in a warm session, and from a save to its result."""

from __future__ import annotations

import itertools
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from penstock.cli.test import LastRun, Selection, follow, run_suites
from penstock.testing.spark import groups_at_hand, quick_session

EXAMPLES = ("trades", "sensors", "ads", "clickstream")
SAVES = 5


def main() -> None:
    """Run as a separate process, with its own session."""
    with tempfile.TemporaryDirectory() as folder, quick_session(groups_at_hand()) as spark:
        for name in EXAMPLES:
            shutil.copytree(Path("examples", name), Path(folder, name))
        selection = Selection((folder,))
        suites = selection.suites()
        run_suites(suites, spark, lambda _: None)
        began = time.perf_counter()
        results = run_suites(suites, spark, lambda _: None)
        each = (time.perf_counter() - began) / len(results)
        saved = _saves(Path(folder), selection, LastRun(suites, results), spark)
    print(f"{each:.3f} {saved:.3f} {len(results)}")
    sys.exit(not all(result.passed for result in results))


def _saves(folder: Path, selection: Selection, last: LastRun, spark: object) -> float:
    """Seconds from a save that renames the first test of trades to its result."""
    tests = folder / "trades" / "trades_test.yaml"
    moments: list[float] = []

    def wait() -> bool:
        moments.append(time.perf_counter())
        text = tests.read_text()
        number = len(moments)
        tests.write_text(text.replace("name: ", f"name: {number} ", 1) if number == 1 else _rename(text, number))
        return number <= SAVES

    follow(selection, spark, wait, last)  # type: ignore[arg-type]
    return statistics.median(after - before for before, after in itertools.pairwise(moments))


def _rename(text: str, number: int) -> str:
    return text.replace(f"name: {number - 1} ", f"name: {number} ", 1)


if __name__ == "__main__":
    main()
