"""Every part of the page in a real browser, with a real pipeline."""

from __future__ import annotations

import json

import pytest
from tests.browser.conftest import EVIL, Live, Tab, explorers, trade, wait_until


def test_the_overview_has_the_pipeline_and_the_address_no_longer_has_the_token(live: Live, tab: Tab):
    tab.page.wait_for_selector("[data-pipeline=trades] .state.running")

    assert tab.page.url.endswith("/#/")
    assert tab.page.evaluate("document.cookie") == ""
    assert not any("token" in url for url in tab.asked)
    tab.shot("overview")


def test_a_window_without_the_token_shows_where_to_find_it(live: Live, browser):
    context = browser.new_context()
    page = context.new_page()
    page.goto(live.link.partition("#")[0])

    page.wait_for_selector("main .wrong")
    assert "open the link that penstock printed" in page.inner_text("main")
    page.goto("about:blank")
    page.goto(live.link[:-3] + "xxx")
    page.wait_for_selector("main .wrong")
    context.close()


def test_a_pipeline_shows_its_graph_charts_events_and_bad_records(live: Live, tab: Tab):
    tab.page.click("[data-pipeline=trades] a")
    tab.page.wait_for_selector("section[data-sink=board] .chart canvas")

    nodes = tab.page.locator(".graph [data-node]").evaluate_all("all => all.map(each => each.dataset.node)")
    assert nodes == ["trades", "sells", "totals", "archive", "board"]
    assert tab.page.locator(".graph path").count() == 4
    assert "rows/s" in (tab.page.text_content(".graph [data-node=board]") or "")
    assert tab.page.locator("section[data-sink=archive] .chart canvas").count() == 7
    tab.wait("document.querySelector('section[data-sink=board] .chart').dataset.points > 0")
    assert "Promise: memory: none (debug only)" in tab.text("section[data-sink=board]")
    assert "started" in tab.text("main table tbody >> nth=-1")
    assert tab.page.locator("table.bad tbody tr").count() == 2
    assert "1" in tab.text("table.bad tbody tr >> nth=0")
    tab.shot("pipeline")


def test_a_new_batch_moves_the_charts_and_the_numbers_without_a_reload(live: Live, tab: Tab):
    tab.page.click("[data-pipeline=trades] a")
    tab.page.wait_for_selector("section[data-sink=archive] .chart canvas")
    points = "Number(document.querySelector('section[data-sink=archive] .chart').dataset.points)"
    before = tab.page.evaluate(points)

    live.send(trade("SELL", 1, 1), trade("SELL", 2, 2))

    tab.wait(f"{points} > {before}")
    tab.wait("document.querySelector('section[data-sink=archive] .facts').innerText.includes('rows in all')")


@pytest.mark.parametrize("tab", [{"viewport": {"width": 375, "height": 740}, "color_scheme": "dark"}], indirect=True)
def test_on_a_phone_in_the_dark_nothing_sticks_out(live: Live, tab: Tab):
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert tab.page.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.page.wait_for_selector("[data-pipeline=trades]")
    assert tab.page.evaluate(wide)

    tab.page.click("[data-pipeline=trades] a")
    tab.page.wait_for_selector("section[data-sink=board] .chart canvas")
    assert tab.page.evaluate(wide)
    tab.shot("phone-dark")
    tab.page.click("text=Explore")
    tab.page.wait_for_selector("#run")
    assert tab.page.evaluate(wide)
    tab.shot("phone-explore")


def test_everything_can_be_reached_and_used_with_the_keyboard(live: Live, tab: Tab):
    tab.page.wait_for_selector("[data-pipeline=trades]")

    tab.page.keyboard.press("t")
    assert tab.page.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.page.keyboard.press("t")
    reached = []
    while "trades" not in reached:
        tab.page.keyboard.press("Tab")
        reached.append(tab.page.evaluate("document.activeElement.innerText"))
        assert len(reached) < 10
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector(".graph")
    focused = "document.activeElement.dataset.node"
    for _ in range(12):
        tab.page.keyboard.press("Tab")
        if tab.page.evaluate(focused) == "sells":
            break
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#run")
    tab.wait("document.querySelector('#what').value === 'step:sells'")


def test_rows_arrive_in_explore_as_text_and_as_bars_are_paused_and_stopped(live: Live, tab: Tab):
    tab.page.goto(f"{live.link.partition('#')[0]}#/p/trades/explore/trades")
    tab.wait("document.querySelector('#what').value === 'step:trades'")
    tab.page.select_option("#start", "earliest")
    tab.page.click("#run")
    rows = "document.querySelectorAll('#rows tbody tr').length"
    tab.wait(f"{rows} >= 2")

    assert EVIL in tab.text("#rows")
    assert tab.page.locator("#rows img").count() == 0
    tab.shot("explore-table")

    tab.page.click("#count")
    tab.page.wait_for_selector("#seen .chart canvas")
    bars = json.loads(tab.page.get_attribute("#seen .chart", "data-bars") or "")
    assert ["2024-01-01 10:00:00", 2] in bars
    tab.page.select_option("#y", label="sum of Amount")
    assert '["2024-01-01 10:00:00",12]' in (tab.page.get_attribute("#seen .chart", "data-bars") or "")
    tab.shot("explore-bars")
    tab.page.select_option("#kind", "line")
    tab.page.wait_for_selector("#seen .chart canvas")
    tab.page.select_option("#kind", "table")

    tab.page.click("#pause")
    before = tab.page.evaluate(rows)
    live.send(trade("PAUSED", 9, 3))
    tab.wait("document.querySelector('#status').innerText.startsWith('Paused')")
    assert tab.page.evaluate(rows) == before
    tab.page.click("#pause")
    tab.wait("document.querySelector('#rows').innerText.includes('PAUSED')")

    tab.page.click("#stop")
    tab.wait("document.querySelector('#status').innerText.startsWith('Stopped')")
    wait_until(lambda: explorers() == [], "the preview's process to end")


def test_a_select_updates_in_place_and_ends_when_the_page_goes_away(live: Live, tab: Tab):
    tab.page.goto(f"{live.link.partition('#')[0]}#/p/trades/explore")
    tab.page.wait_for_selector("#sql")
    tab.wait("document.querySelector('#what').value === 'sql'")
    tab.page.select_option("#start", "earliest")
    tab.page.fill(
        "#sql", "SELECT Type, count(*) AS n FROM trades WHERE Type IN ('BUY', 'NEW') GROUP BY Type ORDER BY Type"
    )
    tab.page.press("#sql", "Control+Enter")
    tab.wait("document.querySelector('#rows')?.innerText.includes('BUY')")
    count = tab.page.locator("#rows tbody tr").count()

    live.send(trade("NEW", 1, 4))
    tab.wait("document.querySelector('#rows').innerText.includes('NEW')")
    live.send(trade("NEW", 1, 4))
    tab.wait("[...document.querySelectorAll('#rows tbody tr')].at(-1).innerText.endsWith('2')")

    assert tab.page.locator("#rows tbody tr").count() == count + 1
    assert tab.text("#status").startswith(f"The result has {count + 1} rows")
    assert "updates in place" in tab.text("#rows caption")
    tab.shot("explore-sql")
    assert len(explorers()) == 1
    tab.page.close()
    wait_until(lambda: explorers() == [], "the preview's process to end")


def test_bad_records_are_seen_with_their_reasons(live: Live, tab: Tab):
    tab.page.click("[data-pipeline=trades] a")
    tab.page.click("table.bad a >> nth=0")
    tab.wait("document.querySelector('#what').value === 'bad:trades'")
    tab.page.select_option("#start", "earliest")
    tab.page.click("#run")
    tab.wait("document.querySelectorAll('#rows tbody tr').length >= 1")

    assert "not json of the declared schema" in tab.text("#rows")
    assert "{oops <img" in tab.text("#rows")
    tab.shot("explore-bad")


REFUSED = {
    "SELECT java_method('java.lang.System', 'exit', 0) FROM trades": "it can call any Java method; remove it",
    "SELECT * FROM csv.`/etc/passwd`": "neither a source nor a step",
    "DROP TABLE trades": "a step is one SELECT",
}


def test_anything_but_a_select_over_the_streams_is_refused(live: Live, tab: Tab):
    tab.page.goto(f"{live.link.partition('#')[0]}#/p/trades/explore")
    tab.wait("document.querySelector('#what').value === 'sql'")
    for text, says in REFUSED.items():
        tab.page.fill("#sql", text)
        tab.page.click("#run")

        tab.wait(f"document.querySelector('#status.wrong')?.innerText.includes({json.dumps(says)})")
        assert "root:" not in tab.text("main")
        wait_until(lambda: explorers() == [], "the preview's process to end")
