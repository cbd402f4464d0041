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
