"""The made-up records are those that the example pipelines expect."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest
import yaml

from penstock import Pipeline, kafka, memory
from penstock.feeds import FEEDS
from penstock.load import load
from penstock.testing import Bench

EXAMPLES = Path(__file__).parents[2] / "examples"


def made(kind: str, count: int = 300) -> list[str]:
    return [record.value.decode() for record in islice(FEEDS[kind](7), count)]


def declared(example: str, source: str) -> str:
    """How an example says that its records look."""
    return yaml.safe_load((EXAMPLES / example / f"{example}.yaml").read_text())["sources"][source]["json"]


def test_trades_are_summed(spark):
    with Bench(load(EXAMPLES / "trades"), spark) as bench:
        bench.feed("trades", *made("trades"))

        amounts = [json.loads(text)["Amount"] for text in made("trades")]
        assert sum(row["TotalBuy"] + row["TotalSell"] for row in bench.rows("totals_topic")) == sum(amounts)
        assert sum(bench.bad_records.values()) == 0


def test_readings_of_sensors_have_a_highest_in_each_window(spark):
    with Bench(load(EXAMPLES / "sensors"), spark) as bench:
        bench.feed("readings", *made("sensors"))

        highest = max(json.loads(text)["Reading"] for text in made("sensors"))
        assert max(row["MaxReading"] for row in bench.rows("board")) == highest


def test_clicks_meet_their_impressions(spark):
    both = list(islice(FEEDS["ads"](7), 300))
    shown, clicked = ([each.value.decode() for each in both if each.stream == number] for number in (0, 1))

    with Bench(load(EXAMPLES / "ads"), spark, sinks=["clicked_topic"]) as bench:
        bench.feed_all({"shown": shown, "clicked": clicked})

        assert 0 < len(bench.rows("clicked_topic")) <= len(clicked)


def test_invoices_are_flattened(spark):
    with Bench(load(EXAMPLES / "invoices"), spark) as bench:
        bench.feed("invoices", *made("invoices", 50))

        items = [item for text in made("invoices", 50) for item in json.loads(text)["InvoiceLineItems"]]
        rows = bench.rows("flattened")
        assert len(rows) == len(items)
        assert sum(row["TotalValue"] for row in rows) == pytest.approx(sum(item["TotalValue"] for item in items))


TWEETS = "created_at timestamp NOT NULL, user string NOT NULL, text string NOT NULL"


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        ("clickstream", declared("clickstream", "events")),
        ("logins", declared("logins", "logins")),
        ("weblogs", declared("recommend", "weblogs")),
        ("tweets", TWEETS),
    ],
)
def test_the_rest_is_decoded_without_a_bad_record(spark, kind, schema):
    pipeline = Pipeline(kind)
    pipeline.source("made", kafka(servers="nowhere:1", topics=["t"]), json=schema, bad_records="drop")
    pipeline.sink("out", "made", memory())

    with Bench(pipeline, spark) as bench:
        bench.feed("made", *made(kind, 100), "not JSON")

        assert len(bench.rows("out")) == 100
        assert bench.bad_records == {"made": 1}
        assert [row for row in bench.rows("out") if None in row.values()] == []
