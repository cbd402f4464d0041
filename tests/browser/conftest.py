"""A real pipeline on a real broker, its page, and a real browser."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.services.command import produce, started
from tests.services.fixtures import Kafka

SHOTS = Path(__file__).parents[2] / "artifacts" / "page"
PIPELINE = """
name: trades
spark:
  # Small and quick to start: a browser and two brokers may share the machine with it.
  spark.sql.shuffle.partitions: 1
  spark.driver.memory: 1g
  spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m
sources:
  trades:
    kafka: {{servers: "{broker}", topics: [{topic}], start: earliest}}
    json: CreatedTime timestamp NOT NULL, Type string NOT NULL, Amount int NOT NULL
    metadata: true
    watermark: {{column: CreatedTime, delay: 30 minutes}}
    bad_records: drop
steps:
  sells: SELECT CreatedTime, Type, Amount FROM trades WHERE Type <> 'BUY'
  totals: |
    SELECT window.start, sum(Amount) AS Total FROM trades GROUP BY window(CreatedTime, '15 minutes')
sinks:
  archive: {{from: sells, files: {{path: out, format: parquet}}}}
  board: {{from: totals, memory: {{}}, mode: complete}}
"""
EVIL = "<img src=x onerror=alert(1)>"


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition: several Sparks start here, and on a busy machine each takes its time."""
    deadline = time.monotonic() + 400
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def trade(kind: str, amount: int, minute: int = 0) -> bytes:
    """A record of the topic."""
    return json.dumps({"CreatedTime": f"2024-01-01 10:{minute:02}:00", "Type": kind, "Amount": amount}).encode()


@dataclass(frozen=True)
class Live:
    """A running pipeline and its page."""

    link: str
    broker: str
    topic: str
    folder: Path

    def send(self, *values: bytes) -> None:
        """Records into the pipeline's topic."""
        produce(self.broker, self.topic, list(values))


@pytest.fixture(scope="module")
def live_topic(broker: str) -> str:
    """A topic that lives as long as the pipeline."""
    return Kafka(broker).create()


@pytest.fixture(scope="module")
def live(broker: str, live_topic: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The pipeline under way, with a good record, one that holds HTML, and a bad one behind it."""
    folder = tmp_path_factory.mktemp("trades")
    (folder / "trades.yaml").write_text(PIPELINE.format(broker=broker, topic=live_topic))
    produce(broker, live_topic, [trade("BUY", 5), trade(EVIL, 7), b"{oops " + EVIL.encode()])
    with started("run", "trades.yaml", "--page-port", "0", folder=folder) as running:
        wait_until(
            lambda: running.process.poll() is not None or len(re.findall("batch 0", running.said)) == 2, "two batches"
        )
        assert running.process.poll() is None, running.said
        ((address, file),) = re.findall(r"page: (http.*/) \(the token is in (.*)\)", running.said)
        link = f"{address}#token={Path(file).read_text()}"
        yield Live(link, broker, live_topic, folder)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium."""
    program = shutil.which("chromium")
    assert program, "these tests need Chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield opened
        opened.close()


@dataclass
class Tab:
    """A page in the browser, and everything that it asked for and complained about."""

    page: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def shot(self, name: str) -> None:
        """Keep a picture."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=True)

    def text(self, selector: str) -> str:
        """What an element says."""
        return self.page.inner_text(selector)

    def wait(self, expression: str) -> None:
        """Until a condition of the page holds; asked from outside, as the page's policy forbids it to evaluate text."""
        try:
            wait_until(lambda: bool(self.page.evaluate(expression)), expression)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page says: {self.text('main')[:2000]}") from error


@pytest.fixture
def tab(live: Live, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Tab]:
    """A fresh window that has come in with the token; it has loaded nothing from elsewhere and shown no dialog."""
    more = getattr(request, "param", {})
    context = browser.new_context(**{"color_scheme": "light", **more})
    made = Tab(context.new_page())
    made.page.set_default_timeout(200_000)
    made.page.on("request", lambda asked: made.asked.append(asked.url))
    made.page.on("console", lambda said: made.complaints.append(said.text) if said.type == "error" else None)
    made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
    made.page.on("dialog", lambda dialog: (made.complaints.append(dialog.message), dialog.dismiss()))
    made.page.goto(live.link)
    made.wait("document.querySelector('#link').dataset.ok === 'yes'")
    yield made
    context.close()
    home = live.link.partition("/#")[0]
    assert [url for url in made.asked if not url.startswith(home)] == []
    assert made.complaints == []


def explorers() -> list[int]:
    """The processes of looks that are under way."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "penstock.page.explorer" in process.cmdline():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
