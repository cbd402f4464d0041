"""The tests of an example notice when its logic is broken.

Each stateful example is broken on purpose, by a change of its text; at least one of the tests beside it must then
fail, or the file be refused. As they are, the files pass all of them: tests/services/test_examples_tests.py.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from penstock.testing import discover, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
TRADES, NET = "trades/trades.yaml", "trades/net.yaml"
SENSORS, ADS, CLICKSTREAM = "sensors/sensors.yaml", "ads/ads.yaml", "clickstream/clickstream.yaml"

WATERMARK = "    watermark: {column: CreatedTime, delay: 30 minutes}\n"
TUMBLING = "window(CreatedTime, '15 minutes')"
SHIFTED = "window(CreatedTime, '15 minutes', '15 minutes', '5 minutes')"
SLIDING = "window(CreatedTime, '15 minutes', '5 minutes')"
INNER, OUTER = "FROM impressions JOIN clicks", "FROM impressions LEFT OUTER JOIN clicks"
UNCLICKED = "an impression without a click"
BOUND = "ClickTime BETWEEN ImpressionTime AND ImpressionTime + INTERVAL 15 MINUTES"
BACKWARDS = "window_time(window) AS clock, timestamp_seconds(-unix_seconds(window.end)) AS time"
BY_ACTION = "action, count(*) AS count FROM events GROUP BY action"
ONLY_CLICKS = "FROM events WHERE action = 'clicked' GROUP"


class Mutation(NamedTuple):
    """A change of an example's text that changes what it computes; `by` tells the test that notices soonest."""

    file: str
    says: str
    old: str
    new: str
    by: str = ""

    def apply(self, text: str) -> str:
        """The text with every occurrence changed."""
        changed = text.replace(self.old, self.new)
        assert changed != text, f"{self.file} has no {self.old!r} any more; change this mutation with it"
        return changed


MUTATIONS = [
    Mutation(TRADES, "the watermark is dropped", WATERMARK, "", "too late"),
    Mutation(TRADES, "the watermark waits too short", "delay: 30 minutes", "delay: 10 minutes", "a late trade within"),
    Mutation(TRADES, "the window is shorter", TUMBLING, "window(CreatedTime, '10 minutes')"),
    Mutation(TRADES, "the window is shifted", TUMBLING, SHIFTED),
    Mutation(TRADES, "the wrong side is summed", "Type = 'SELL'", "Type = 'BUY'"),
    Mutation(NET, "the watermark is dropped", WATERMARK, ""),
    Mutation(NET, "the window is shifted", TUMBLING, SHIFTED),
    Mutation(NET, "the totals run backwards", "window_time(window) AS time", BACKWARDS),
    Mutation(NET, "the wrong side runs", "sum(TotalSell)", "sum(TotalBuy)"),
    Mutation(SENSORS, "the watermark is dropped", WATERMARK, "", "too late"),
    Mutation(SENSORS, "the window slides by ten minutes", SLIDING, "window(CreatedTime, '15 minutes', '10 minutes')"),
    Mutation(SENSORS, "the window is longer", SLIDING, "window(CreatedTime, '20 minutes', '5 minutes')"),
    Mutation(SENSORS, "the lowest reading is taken", "max(Reading)", "min(Reading)", "the highest of several"),
    Mutation(ADS, "the watermarks are dropped", WATERMARK, ""),
    Mutation(ADS, "the inner join is an outer one", INNER, OUTER, UNCLICKED),
    Mutation(ADS, "the outer join is an inner one", OUTER, INNER, UNCLICKED),
    Mutation(ADS, "impressions that are sent twice are kept", "FROM shown_once", "FROM shown"),
    Mutation(ADS, "clicks count for longer", BOUND, BOUND.replace("15", "20"), "after the fifteen minutes"),
    Mutation(CLICKSTREAM, "the changes are written as a whole table", "mode: update", "mode: complete"),
    Mutation(CLICKSTREAM, "the whole table is written as changes", "mode: complete", "mode: update"),
    Mutation(
        CLICKSTREAM, "the counts are by site", BY_ACTION, "site AS action, count(*) AS count FROM events GROUP BY site"
    ),
    Mutation(CLICKSTREAM, "only clicks are counted", "FROM events GROUP", ONLY_CLICKS),
]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: f"{Path(each.file).stem}: {each.says}")
def test_the_tests_of_an_example_notice_that(spark, tmp_path, mutation):
    original = EXAMPLES / mutation.file
    shutil.copy(original.with_name(f"{original.stem}_test.yaml"), tmp_path)
    mutant = tmp_path / original.name

    mutant.write_text(mutation.apply(original.read_text()))

    assert _is_noticed(mutant, mutation.by, spark)


def _is_noticed(file: Path, by: str, spark: SparkSession) -> bool:
    """Whether the file is refused or one of its tests fails; the first of them is enough."""
    (suite,) = discover([file])
    if suite.findings or suite.pipeline is None:
        return True
    likely_first = sorted(suite.cases, key=lambda case: by not in case.name)
    return any(not run(case, suite.pipeline, spark).passed for case in likely_first)
