"""The page over an event log as a run leaves it: no pipeline, no broker."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.unit.watch.reports import MANIFEST, event, progress, write_log

from penstock.page import serve

EVIL = "</script><img src=x onerror=alert(1)>"
STARTED = event("started", "09:59:00", sinks=["board"])


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    failed = event("failed", "10:05:00", reason=EVIL)
    batches = [event("batch", f"10:0{n}:02", progress=progress(n, end=250 + n, latest=1250)) for n in range(4)]
    write_log(tmp_path, "trades", [STARTED, *batches, failed, event("stopped", "10:05:01")])
    return tmp_path


@pytest.fixture
def page(browser: Browser, storage: Path) -> Iterator[Page]:
    context = browser.new_context()
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
    opened.set_default_timeout(120_000)
    with serve(str(storage)) as site:
        opened.goto(site.link)
        opened.wait_for_selector("[data-pipeline=trades]")
        yield opened
        context.close()
    assert complaints == []


def test_a_failure_that_holds_html_is_shown_as_text(page: Page):
    assert EVIL in page.inner_text("[data-pipeline=trades] .wrong")
    page.click("[data-pipeline=trades] a")
    page.wait_for_selector("section[data-sink=board] .chart canvas")

    assert page.inner_text("h1") == "trades failed"
    assert f"failed: {EVIL}" in page.inner_text("main")
    assert page.locator("main img").count() == 0


def test_charts_show_each_batch_once_and_lag_by_partition_is_a_click_away(page: Page, storage: Path):
    page.click("[data-pipeline=trades] a")
    chart = "section[data-sink=board] .chart[data-points='4']"
    page.wait_for_selector(chart)

    write_log(storage, "trades", [event("batch", "10:06:02", progress=progress(4, end=300, latest=1250))])
    page.wait_for_selector(chart.replace("'4'", "'5'"))
    page.click("section[data-sink=board] summary")

    assert "trades/0" in page.inner_text("section[data-sink=board] details")
    assert "950" in page.inner_text("section[data-sink=board] details")
    assert "writing" in (page.get_attribute("[data-name='Seconds of a batch']", "aria-label") or "")


def test_a_pipeline_that_begins_to_run_appears_by_itself(page: Page, storage: Path):
    write_log(storage, "clicks", [STARTED])

    page.wait_for_selector("[data-pipeline=clicks] .state")


def test_an_unknown_pipeline_is_reported(page: Page):
    page.evaluate("location.hash = '#/p/nothing'")

    page.wait_for_selector("text=Unknown pipeline.")


COLUMNS = [{"name": "Type", "type": "string"}, {"name": "Amount", "type": "int"}]
# Stands in for the process behind Explore: it prints these lines and ends when the page is gone.
LINES = "import sys; sys.stdin.readline(); print(open(sys.argv[1]).read(), end='', flush=True); sys.stdin.read()"


@pytest.fixture
def explored(page: Page, storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Explore over lines that a test writes; the clock of the page is the test's."""
    (tmp_path / "trades.yaml").write_text("")
    write_log(storage, "trades", [STARTED], {**MANIFEST, "file": str(tmp_path / "trades.yaml")})
    monkeypatch.setattr("penstock.page.explore.EXPLORER", (sys.executable, "-c", LINES, str(tmp_path / "lines")))
    page.clock.install()

    def run(mode: str, *batches: list[list[object]]) -> Page:
        lines = [{"what": "columns", "columns": COLUMNS, "mode": mode}]
        replaces = mode == "complete"
        lines += [{"what": "rows", "batch": 0, "rows": rows, "replaces": replaces, "left_out": 0} for rows in batches]
        (tmp_path / "lines").write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        page.evaluate("location.hash = '#/p/trades/explore/trades'")
        page.wait_for_selector("#what option[value='step:trades']", state="attached")
        page.click("#run")
        return page

    return run


def test_bars_are_the_sum_of_each_category(explored):
    page = explored("append", [["BUY", 5], ["SELL", 7]], [["BUY", 6], ["BUY", None]])
    page.wait_for_selector("text=4 rows have arrived.")
    page.select_option("#kind", "bar")
    page.select_option("#x", label="Type")
    page.select_option("#y", label="sum of Amount")

    bars = json.loads(page.get_attribute("#seen .chart", "data-bars") or "")
    assert bars == [["BUY", 11], ["SELL", 7]]
    page.select_option("#y", label="count of rows")
    bars = json.loads(page.get_attribute("#seen .chart", "data-bars") or "")
    assert bars == [["BUY", 3], ["SELL", 1]]


def test_a_result_that_is_updated_in_place_counts_its_rows_once(explored):
    page = explored("complete", [["BUY", 1]], [["BUY", 2], ["SELL", 1]], [["BUY", 3], ["SELL", 1]])

    page.wait_for_selector("text=The result has 2 rows; it was updated 3 times.")


def test_updates_of_rows_are_not_called_rows_and_the_latest_counts(explored):
    page = explored("update", [["BUY", 1]], [["BUY", 2]], [["BUY", 3]])
    page.wait_for_selector("text=3 updates have arrived.")
    page.select_option("#kind", "bar")
    page.select_option("#x", label="Type")
    page.select_option("#y", label="latest Amount")

    assert json.loads(page.get_attribute("#seen .chart", "data-bars") or "") == [["BUY", 3]]


def test_rows_tell_their_age_and_are_marked_when_they_are_stale(explored):
    page = explored("append", [["BUY", 5]])
    page.wait_for_selector("text=1 row has arrived.")
    assert "arrived" in page.inner_text("#age")
    assert page.get_attribute("#seen", "class") == ""

    page.clock.fast_forward("02:00")

    page.wait_for_selector("#seen.stale")
    assert page.inner_text("#age").startswith("Stale: the newest rows arrived 2.")


def test_a_pipeline_tells_the_age_of_its_last_batch(page: Page):
    page.click("[data-pipeline=trades] a")

    page.wait_for_selector("section[data-sink=board] .facts [data-at]")
    assert page.inner_text("section[data-sink=board] .facts [data-at]").endswith(" d ago")
