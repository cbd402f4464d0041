"""Totals by broker, from both layers: python totals.py nightly | now | all

    nightly   aggregate the lake and store the result, with the last offset of each partition in it
    now       that result, plus the sums in Cassandra of the batches after those offsets
    all       the lake alone, at this moment: slow, and `now` must agree with it

Both layers are written by one sink, batch by batch. A batch is either before or after the stored offsets, so nothing is
counted twice, whatever the time of its trades.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(os.environ.get("LAMBDA_FOLDER", Path(__file__).parent))
LAKE, VIEW = HERE / "lake" / "trades", HERE / "lake" / "view.json"

Totals = dict[str, tuple[int, int]]


def main(command: str) -> None:
    """Print the totals of each broker."""
    if command == "nightly":
        totals, places = lake()
        VIEW.write_text(json.dumps({"totals": totals, "places": places}))
    elif command == "now":
        view = json.loads(VIEW.read_text()) if VIEW.exists() else {"totals": {}, "places": {}}
        totals = aggregate([*_rows(view["totals"]), *recent(view["places"])])
    elif command == "all":
        totals, _ = lake()
    else:
        sys.exit(f"{command!r} is not a command; use nightly, now or all")
    for broker, (bought, sold) in sorted(totals.items()):
        print(f"{broker} bought {bought} sold {sold}")


def lake() -> tuple[Totals, dict[str, int]]:
    """The totals of everything in the lake, and the last offset of each partition in it."""
    from penstock import jars
    from penstock.connectors import SINKS
    from penstock.engine import session

    delta = SINKS["delta"]
    log = HERE / "lake" / "totals.log"
    spark = session("totals", asked=delta.session, jars=jars.paths(delta.jars), log=log)
    try:
        trades = spark.read.format("delta").load(str(LAKE))
        sums = "sum(if(Type = 'BUY', Amount, 0)) AS bought", "sum(if(Type = 'SELL', Amount, 0)) AS sold"
        # Both from one snapshot, because the table may grow meanwhile.
        found = trades.groupBy("BrokerCode", "part").agg(*_expressions(*sums, "max(place) AS place"))
        rows = found.collect()
    finally:
        spark.stop()
    places: dict[str, int] = {}
    for row in rows:
        places[str(row.part)] = max(row.place, places.get(str(row.part), -1))
    return aggregate((row.BrokerCode, row.bought, row.sold) for row in rows), places


def recent(places: dict[str, int]) -> Iterable[tuple[str, int, int]]:
    """The sums of the batches after these offsets, from Cassandra."""
    from cassandra.cluster import Cluster

    host, _, port = os.environ.get("CASSANDRA_HOSTS", "127.0.0.1:9042").partition(":")
    cluster = Cluster([host], port=int(port or 9042))
    try:
        query = "SELECT broker, part, first_place, bought, sold FROM market.recent_totals"
        for row in cluster.connect().execute(query):
            if row.first_place > places.get(str(row.part), -1):
                yield row.broker, row.bought, row.sold
    finally:
        cluster.shutdown()


def aggregate(rows: Iterable[tuple[str, int, int]]) -> Totals:
    """The totals of each broker."""
    totals: Totals = {}
    for broker, bought, sold in rows:
        before = totals.get(broker, (0, 0))
        totals[broker] = (before[0] + bought, before[1] + sold)
    return totals


def _rows(totals: Totals) -> Iterable[tuple[str, int, int]]:
    return ((broker, bought, sold) for broker, (bought, sold) in totals.items())


def _expressions(*texts: str) -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812

    return [F.expr(text) for text in texts]


if __name__ == "__main__":
    main(*sys.argv[1:2] or ["now"])
