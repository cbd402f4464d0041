"""Options of Delta tables and databases, and what they ask of the session."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.connectors.delta import DeltaSink, DeltaSource
from penstock.connectors.jdbc import JdbcSink, JdbcSource
from penstock.load.document import to_pipeline
from penstock.load.yaml_file import parse_yaml
from penstock.testing.spark import settings_of

EXTENSIONS = "spark.sql.extensions"
DELTA = "io.delta.sql.DeltaSparkSessionExtension"


def pipeline(text: str):
    return to_pipeline(parse_yaml(text, "a.yaml"))


def test_only_a_pipeline_with_a_delta_table_has_its_settings():
    plain = pipeline("sources: {a: {rate: }}\nsinks: {b: {from: a, console: }}\n")
    delta = pipeline("sources: {a: {rate: }}\nsinks: {b: {from: a, delta: {path: x}}}\n")

    assert EXTENSIONS not in plain.session_settings
    assert delta.session_settings[EXTENSIONS] == DELTA
    assert delta.jar_groups == ("delta",)
    assert settings_of(["kafka"]) == {}
    assert settings_of(["kafka", "delta"])[EXTENSIONS] == DELTA


def test_extensions_of_the_file_come_beside_those_of_the_connectors():
    both = pipeline(
        "spark: {spark.sql.extensions: org.acme.Mine}\n"
        "sources: {a: {delta: {path: y}}}\nsinks: {b: {from: a, delta: {path: x}}}\n"
    )

    assert both.session_settings[EXTENSIONS] == f"{DELTA},org.acme.Mine"


@pytest.mark.parametrize(
    ("made", "options", "says"),
    [
        (DeltaSink, {"path": "x", "latest_by": "at"}, "'latest_by' needs 'key'"),
        (DeltaSink, {"path": "x", "target_file_size": "128"}, "'128' is not a size"),
        (DeltaSink, {"path": "x", "compact": {"every": "often"}}, "'often' is not a duration"),
        (DeltaSink, {"path": "x", "compact": {"every": "1 hour", "vacuum": "1 day"}}, "use '7 days' or more"),
        (DeltaSource, {"path": "x", "start": "soon"}, "'soon' is not a version or a time"),
        (DeltaSource, {"path": "x", "change_feed": True, "on_change": "skip"}, "take 'on_change' out"),
        (JdbcSource, {"url": "jdbc:x:y"}, "give one of 'table' and 'query'"),
        (JdbcSource, {"url": "jdbc:x:y", "table": "t", "partitions": 2}, "belong together"),
    ],
)
def test_options_that_cannot_work_are_refused(made, options, says):
    with pytest.raises(ValidationError, match=says):
        made(**options)


def test_times_are_taken_as_utc_unless_they_say_otherwise():
    assert DeltaSource(path="x", start="2024-05-01 12:00:00").start == "2024-05-01 12:00:00.000000"
    assert DeltaSource(path="x", as_of="2024-05-01T12:00:00+02:00").as_of == "2024-05-01 10:00:00.000000"


def test_a_file_of_sqlite_is_beside_the_pipeline_s(tmp_path: Path):
    here = tmp_path.resolve()

    def located(url: str) -> str:
        return JdbcSink(url=url, table="t").with_absolute_paths(tmp_path).url

    assert located("jdbc:sqlite:shop.db") == f"jdbc:sqlite:{here}/shop.db"
    assert located("jdbc:sqlite:/data/shop.db") == "jdbc:sqlite:/data/shop.db"
    assert located("jdbc:postgresql://db/shop") == "jdbc:postgresql://db/shop"


def test_the_driver_is_chosen_by_the_url_and_no_password_is_shown():
    sink = JdbcSink(url="jdbc:postgresql://me:hunter2@db:5432/shop?password=hunter2", table="t", password="hunter2")

    assert sink.jar_groups == ("postgresql",)
    assert JdbcSink(url="jdbc:sqlite:x", table="t").jar_groups == ("sqlite",)
    assert JdbcSink(url="jdbc:mysql://x", table="t").jar_groups == ()
    assert sink.address == "jdbc:postgresql://db:5432/shop"
    assert "hunter2" not in repr(sink)
