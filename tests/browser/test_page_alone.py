"""The page over an event log as a run leaves it: no pipeline, no broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests.unit.watch.reports import event, progress, write_log

from penstock.page import served

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
    with served(str(storage)) as site:
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


def test_a_pipeline_that_is_not_there_is_said(page: Page):
    page.evaluate("location.hash = '#/p/nothing'")

    page.wait_for_selector("text=There is no such pipeline here.")
