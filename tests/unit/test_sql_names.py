"""What a SQL text reads."""

from __future__ import annotations

import pytest

from penstock.sql import find_table_names

KNOWN = {"trades": "trades", "clicks": "clicks"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT 1", ()),
        ("SELECT * FROM trades", ("trades",)),
        ("SELECT * FROM TRADES AS t", ("trades",)),
        ("SELECT * FROM `trades`", ("trades",)),
        ("SELECT * FROM nope", ("nope",)),
        ("SELECT window.end FROM trades GROUP BY window(at, '1 minute', '30 seconds')", ("trades",)),
        ("SELECT * FROM trades JOIN clicks USING (id)", ("trades", "clicks")),
        ("SELECT * FROM trades UNION ALL SELECT * FROM clicks", ("trades", "clicks")),
        ("SELECT * FROM (SELECT * FROM trades) x", ("trades",)),
        ("SELECT * FROM trades WHERE id IN (SELECT id FROM clicks)", ("trades", "clicks")),
        ("SELECT EXTRACT(day FROM clicks) FROM trades", ("trades",)),
        ("SELECT trim(both 'x' FROM clicks) FROM trades", ("trades",)),
        ("SELECT y FROM trades LATERAL VIEW explode(xs) clicks AS y", ("trades",)),
        ("SELECT transform(xs, clicks -> clicks + 1) FROM trades", ("trades",)),
        ("SELECT /*+ BROADCAST(c) */ * FROM trades JOIN clicks c ON true", ("trades", "clicks")),
        ("SELECT 'FROM clicks' FROM trades -- FROM clicks", ("trades",)),
        ("FROM trades SELECT id", ("trades",)),
        ("FROM trades |> WHERE id > 1 |> SELECT id", ("trades",)),
        ("SELECT * FROM range(10)", ()),
        ("SELECT * FROM VALUES (1) AS clicks(a)", ()),
        ("SELECT * FROM STREAM(trades)", ("trades",)),
        ("SELECT * FROM STREAM trades", ("trades",)),
        ("TABLE trades", ("trades",)),
    ],
)
def test_the_streams_that_a_text_reads_are_found(text, names):
    assert sorted(find_table_names(text, KNOWN)) == sorted(names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("WITH clicks AS (SELECT * FROM trades) SELECT * FROM clicks", ("trades",)),
        ("WITH trades AS (SELECT * FROM trades) SELECT * FROM trades", ("trades",)),
        ("WITH a AS (SELECT * FROM trades), b AS (SELECT * FROM a) SELECT * FROM b, clicks", ("trades", "clicks")),
        ("WITH a AS (SELECT * FROM clicks), clicks AS (SELECT 1) SELECT * FROM a, clicks", ("clicks",)),
        ("WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", ()),
        ("SELECT * FROM (WITH clicks AS (SELECT 1) SELECT * FROM clicks) x JOIN clicks", ("clicks",)),
    ],
)
def test_a_name_of_with_hides_a_stream_only_where_it_is_known(text, names):
    assert sorted(find_table_names(text, KNOWN)) == sorted(names)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SELECT * FROM json.`/etc/passwd`", "json./etc/passwd"),
        ("SELECT * FROM `json`.`/etc/passwd`", "json./etc/passwd"),
        ("SELECT * FROM db.table", "db.table"),
        ("WITH a AS (SELECT * FROM csv.`s3a://b/c`) SELECT * FROM a", "csv.s3a://b/c"),
    ],
)
def test_files_and_foreign_tables_come_as_they_are(text, name):
    assert find_table_names(text, KNOWN) == (name,)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT a b c FROM Trades WHERE x.clicks > 'clicks'", ("trades",)),
        ("SELECT a b c, clicks, d FROM trades", ("trades",)),
        ("SELECT a b c FROM trades t, clicks AS k WHERE clicks > 1", ("trades", "clicks")),
        ("SELECT a b c FROM trades JOIN LATERAL (SELECT clicks FROM x) GROUP BY clicks, trades", ("trades",)),
        ("SELECT a b c FROM (SELECT EXTRACT(day FROM clicks) AS trades FROM x)", ()),
        ("TABLE trades |> EXTEND clicks + 1 AS clicks |> JOIN STREAM(clicks) USING (id)", ("trades", "clicks")),
        ("SELECT a b c FROM trades.clicks, `clicks`", ("clicks",)),
    ],
)
def test_what_cannot_be_parsed_reads_the_streams_that_stand_where_tables_do(text, names):
    assert find_table_names(text, KNOWN) == names


@pytest.mark.parametrize("text", ["", "'", "((((", "(" * 5000, "\x00", "SELECT `", "/*", "SELECT * FROM"])
def test_no_text_raises(text):
    assert find_table_names(text, KNOWN) == ()
