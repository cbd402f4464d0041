"""The `join` step: rows of two streams near each other in time, and state that ends."""

from __future__ import annotations

import pytest

from penstock.checks import check
from penstock.load import load_text

FILE = """
name: ads
sources:
  seen:
    files: {path: seen, format: json, schema: "id string, at timestamp, price int", files_per_trigger: 1}
    watermark: {column: at, delay: 10 minutes}
  clicks:
    files: {path: clicks, format: json, schema: "ad string, at timestamp, who string", files_per_trigger: 1}
    watermark: {column: at, delay: 10 minutes}
steps:
  joined:
    join: {left: seen, right: clicks, on: {id: ad}, within: 1 hour, kind: KIND, columns: {clicked: at, who: who}}
sinks: {NAME: {from: joined, memory: {}}}
"""


def seen(id_: str, at: str, price: int) -> str:
    return f'{{"id": "{id_}", "at": "2024-01-01 {at}:00", "price": {price}}}\n'


def click(ad: str, at: str, who: str) -> str:
    return f'{{"ad": "{ad}", "at": "2024-01-01 {at}:00", "who": "{who}"}}\n'


def put_rows(project) -> None:
    project.put("seen/1.json", seen("a", "10:00", 1) + seen("b", "10:00", 2) + seen("c", "10:00", 3), at=1)
    # Half an hour later, two hours later, and of an advertisement that nobody saw.
    project.put(
        "clicks/1.json", click("a", "10:30", "ann") + click("b", "12:00", "bob") + click("z", "10:10", "zoe"), at=1
    )
    project.put("seen/2.json", seen("later", "15:00", 0), at=2)
    project.put("clicks/2.json", click("much", "15:00", "eve"), at=2)
    # The watermark of these batches lets the rows of the first ones end.
    project.put("seen/3.json", seen("end", "15:01", 0), at=3)
    project.put("clicks/3.json", click("stop", "15:01", "eve"), at=3)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", [("a", "ann")]),
        ("left", [("a", "ann"), ("b", None), ("c", None)]),
        ("right", [("a", "ann"), ("b", "bob"), ("z", "zoe")]),
        ("full", [("a", "ann"), ("b", "bob"), ("b", None), ("c", None), ("z", "zoe")]),
    ],
)
def test_rows_within_the_time_are_joined_and_the_others_end_with_the_watermark(project, kind, expected):
    put_rows(project)

    run = project.run(FILE.replace("KIND", kind).replace("NAME", f"{kind}_out"))

    found = [(id_, who) for id_, *_, who in project.rows(f"{kind}_out")]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    # Of the eight rows only those of the last hours are still kept.
    (query,) = run.queries
    assert query.lastProgress["stateOperators"][0]["numRowsTotal"] <= 4


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "watermark: {column: at, delay: 10 minutes}\n  clicks",
            "bad_records: drop\n  clicks",
            "joins 'seen', which has no watermark",
        ),
        ("{id: ad}", "{idd: ad}", "'on' names 'idd', which 'seen' does not have"),
        ("within: 1 hour", "within: soon", "'soon' is not a duration"),
        ("kind: KIND", "kind: outer", "'kind' is 'outer'"),
        (", columns: {clicked: at, who: who}", "", "both 'seen' and 'clicks' have 'at'; rename what is added"),
    ],
)
def test_bad_input_is_found_by_check(old: str, new: str, says: str):
    from penstock.errors import LoadError

    text = FILE.replace(old, new).replace("KIND", "inner").replace("NAME", "out")
    try:
        found = [str(each) for each in check(load_text(text.encode(), "a.yaml"))]
    except LoadError as error:
        found = [str(each) for each in error.findings]

    assert any(says in each for each in found), found
