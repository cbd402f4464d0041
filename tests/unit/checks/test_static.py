from __future__ import annotations

from pathlib import Path

from penstock.checks import check
from penstock.load import load

TEXT = """
sources:
  ticks: {rate: {}, static: true}
  users:
    files: {path: users, format: csv, schema: "at timestamp"}
    static: {refresh: 10 minutes}
    watermark: {column: at, delay: 1 minute}
sinks:
  out: {from: users, memory: {}}
  two: {from: ticks, memory: {}}
"""


def test_what_cannot_be_a_static_table_is_found(tmp_path: Path):
    (tmp_path / "p.yaml").write_text(TEXT)

    found = [str(each).split("p.yaml:")[1] for each in check(load(tmp_path / "p.yaml")) if each.severity == "error"]

    assert found == [
        "3:21: source 'ticks': rate cannot be read as a static table; remove 'static', or use files",
        "7:5: source 'users' is static, and a table has no watermark; remove 'watermark'",
        "9:3: sink 'out' reads only static tables, so the query would never have a batch; "
        "join them with a stream, or remove 'static'",
        "10:3: sink 'two' reads only static tables, so the query would never have a batch; "
        "join them with a stream, or remove 'static'",
    ]


def test_a_refresh_that_is_no_time_is_found(tmp_path: Path):
    import pytest

    from penstock.errors import LoadError

    (tmp_path / "p.yaml").write_text(TEXT.replace("10 minutes", "sometimes"))

    with pytest.raises(LoadError, match=r"p\.yaml:6:5: source 'users': 'sometimes' is not a duration"):
        load(tmp_path / "p.yaml")


def test_a_step_that_reads_no_source_never_has_a_batch(findings):
    sinks = "sinks: {b: {from: s, console: {}}, c: {from: a, console: {}}}"
    says = "sink 'b' reads 's', which reads no source: the query would never have a batch; read a source in FROM"

    assert findings(f"sources: {{a: {{rate: {{}}}}}}\nsteps: {{s: SELECT 1 AS n}}\n{sinks}\n") == [
        f"a.yaml:3:9: {says}"
    ]
