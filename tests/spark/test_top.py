"""`top` and `latest` give what a batch over all rows gives, whatever the order of arrival, batches and restarts."""

from __future__ import annotations

import json
import random
import sqlite3

import pytest

FILE = """
name: best
sources:
  rows:
    files: {path: input, format: json, schema: "at timestamp, who string, amount int, note string"}
steps:
  best: {top: {from: rows, by: [who], order_by: amount desc, n: 3}}
  first: {top: {from: rows, order_by: [at, note], n: 2, rank: place}}
  newest: {latest: {from: rows, by: [who], order_by: [at]}}
sinks:
  best_out: {from: best, mode: update, jdbc: {url: "jdbc:sqlite:%s", table: best, key: [who, rank], create: true}}
  first_out: {from: first, mode: update, jdbc: {url: "jdbc:sqlite:%s", table: first, key: [place], create: true}}
  newest_out: {from: newest, mode: update, jdbc: {url: "jdbc:sqlite:%s", table: newest, key: [who], create: true}}
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_the_stream_has_the_rows_of_the_batch(project, seed: int):
    chance = random.Random(seed)
    rows = [_row(chance, number) for number in range(60)]
    chance.shuffle(rows)
    cuts = sorted(chance.sample(range(1, 60), 4))
    batches = [rows[start:end] for start, end in zip([0, *cuts], [*cuts, 60], strict=True)]
    tables = [project.folder / f"{name}.db" for name in ("best", "first", "newest")]

    for place, batch in enumerate(batches):
        project.put(f"input/{place}.json", "".join(json.dumps(row) + "\n" for row in batch), at=place + 1)
        if place in (1, 4):
            # The second run goes on with the state of the first.
            project.run(FILE % tuple(tables))

    best, first, newest = (_read(table) for table in tables)
    assert _places(best, "who", "rank") == _expect_best(rows)
    assert [row["note"] for row in sorted(first, key=lambda row: row["place"])] == [
        row["note"] for row in sorted(rows, key=lambda row: (row["at"], row["note"]))[:2]
    ]
    assert {row["who"]: row["note"] for row in newest} == {
        who: max((row for row in rows if row["who"] == who), key=lambda row: row["at"])["note"] for who in ("a", "b")
    }


def _row(chance: random.Random, number: int) -> dict[str, object]:
    at = f"2024-01-01 {10 + number // 60:02}:{number % 60:02}:00"
    # Few amounts, so that there are ties, and some without one.
    amount = chance.choice([None, 1, 2, 3])
    return {"at": at, "who": chance.choice("ab"), "amount": amount, "note": f"n{number}"}


def _read(file) -> list[dict[str, object]]:
    connection = sqlite3.connect(file)
    connection.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in connection.execute(f"SELECT * FROM {file.stem}")]
    finally:
        connection.close()


def _places(rows: list[dict[str, object]], *keys: str) -> dict[tuple[object, ...], object]:
    return {tuple(row[key] for key in keys): row["amount"] for row in rows}


def _expect_best(rows: list[dict[str, object]]) -> dict[tuple[object, ...], object]:
    found = {}
    for who in ("a", "b"):
        amounts = sorted((row["amount"] or 0 for row in rows if row["who"] == who), reverse=True)[:3]
        found |= {(who, place): amount or None for place, amount in enumerate(amounts, start=1)}
    return found


def test_a_window_is_written_once_when_the_watermark_has_passed_it(project):
    def rows(*pairs: tuple[str, int]) -> str:
        return "".join(f'{{"at": "2024-01-01 {at}:00", "amount": {amount}}}\n' for at, amount in pairs)

    project.put("input/1.json", rows(("10:05", 1), ("10:50", 7), ("11:10", 3)), at=1)
    project.put("input/2.json", rows(("10:20", 9), ("12:30", 2)), at=2)
    project.put("input/3.json", rows(("12:40", 4)), at=3)

    project.run("""
        name: windows
        sources:
          rows:
            files: {path: input, format: json, schema: "at timestamp, amount int", files_per_trigger: 1}
            watermark: {column: at, delay: 1 hour}
        steps:
          slots: SELECT window(at, '1 hour') AS slot, amount FROM rows
          best: {top: {from: slots, by: [slot], order_by: amount desc, n: 2}}
          flat: SELECT hour(slot.start) AS hour, amount, rank FROM best
        sinks:
          windows_out: {from: flat, memory: {}}
    """)

    # The watermark has reached 11:30 or a little later: only the window of 10 o'clock is final.
    assert project.rows("windows_out") == [(10, 7, 2), (10, 9, 1)]
