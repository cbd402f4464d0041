"""What becomes of a checkpoint when a step changes, as docs/howto/change.md says it."""

from __future__ import annotations

import json
import sys

import pytest

from penstock.errors import PenstockError

TEXT = """
name: changes
sources:
  events: {{files: {{path: in, format: json, schema: "a string, b string, n bigint, m bigint"}}}}
steps:
  totals: {step}
sinks:
  out: {{from: totals, to: [{{foreach_batch: {{python: "changes_target:keep"}}}}], mode: update}}
"""
KEEP = "ROWS = []\n\n\ndef keep(rows, number):\n    ROWS.extend(tuple(row) for row in rows.collect())\n"
TOTALS = "SELECT a, sum(n) AS total FROM events GROUP BY a"


def run(project, step: str, number: int, **row: object) -> list[tuple]:
    project.put("changes_target.py", KEEP)
    project.put(f"in/{number}.json", json.dumps(row))
    pipeline = project.load(TEXT.format(step=step))
    import changes_target

    changes_target.ROWS.clear()
    project.run_once(pipeline)
    return list(changes_target.ROWS)


@pytest.mark.parametrize(
    ("after", "rows"),
    [
        ("SELECT a, sum(n) AS total FROM events WHERE n > 0 GROUP BY a", [("x", 8)]),
        ("SELECT a, sum(n) + 0 AS total FROM events GROUP BY a", [("x", 8)]),
        # Types that Spark would accept, and another meaning.
        ("SELECT b, sum(n) AS total FROM events GROUP BY b", None),
        ("SELECT a, max(n) AS total FROM events GROUP BY a", None),
        ("SELECT a, sum(n) AS total FROM (SELECT a, m AS n FROM events) GROUP BY a", None),
        # Types that Spark would refuse too.
        ("SELECT a, avg(n) AS total FROM events GROUP BY a", None),
        ("SELECT a, b, sum(n) AS total FROM events GROUP BY a, b", None),
    ],
)
def test_an_edit_that_gives_the_state_another_meaning_is_refused(project, monkeypatch, after, rows):
    monkeypatch.syspath_prepend(str(project.folder))
    monkeypatch.delitem(sys.modules, "changes_target", raising=False)
    assert run(project, TOTALS, 1, a="x", b="y", n=5, m=50) == [("x", 5)]

    if rows is None:
        with pytest.raises(PenstockError, match=r"the state in its checkpoint is of .* `penstock reset changes"):
            run(project, after, 2, a="x", b="x", n=3, m=7)
    else:
        assert run(project, after, 2, a="x", b="x", n=3, m=7) == rows
