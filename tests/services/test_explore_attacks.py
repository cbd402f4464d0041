"""SQL that a browser sends to Explore, through the real HTTP API and the real Spark behind it."""

from __future__ import annotations

import json
import random
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.spellings import KNOWN_ATTACKS, forbidden
from tests.unit.page.conftest import Site
from tests.unit.watch.reports import event, write_log

from penstock.load import load
from penstock.page import serve
from penstock.storage.layout import Storage, manifest

PIPELINE = """
name: trades
sources: {trades: {rate: {rows_per_second: 10}}}
sinks: {out: {from: trades, console: {}}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory):
    """The page of a pipeline that Explore can run."""
    folder = tmp_path_factory.mktemp("explore")
    folder.chmod(0o700)
    file = folder / "trades.yaml"
    file.write_text(PIPELINE)
    file.chmod(0o600)
    storage = folder / "storage"
    write_log(storage, "trades", [event("started", "09:59:00", sinks=["out"])])
    Path(Storage.by_name(str(storage), "trades").manifest).write_text(json.dumps(manifest(load(file))))
    with serve(str(storage)) as page:
        ours = Site(int(page.address.rsplit(":", 1)[1]), page.token, Path(storage))
        # The page reads the storage when it is first asked what there is.
        assert 'pipeline="trades"' in ours.get("/metrics").body
        yield ours


def explore(site: Site, sql: str) -> list[str]:
    """The names of what Explore sends back for a SELECT, and the reason at the end."""
    answer = site.post("/api/explore", {"pipeline": "trades", "sql": sql, "start": "latest"})
    assert answer.status == 200, answer.body
    address = f"http://127.0.0.1:{site.port}/api/explore/{json.loads(answer.body)['id']}"
    request = urllib.request.Request(address, headers={"authorization": f"Bearer {site.token}"})
    with urllib.request.urlopen(request, timeout=300) as stream:
        text = stream.read().decode()
    return [line.removeprefix("event:").strip() for line in text.splitlines() if line.startswith("event:")]


def refuse_all(site: Site, texts: list[str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        said = dict(zip(texts, pool.map(lambda text: explore(site, text), texts), strict=True))

    assert {text: names for text, names in said.items() if names[-1:] != ["error"] or "columns" in names} == {}


def test_what_once_ran_through_explore_is_refused(site: Site):
    # The last one only Spark's parser can judge.
    refuse_all(site, [*KNOWN_ATTACKS, "SELECT repeat('x', 1000000000) AS x FROM trades"])

    assert not Path("/tmp/penstock-attack").exists()


@pytest.mark.soak
def test_five_hundred_spellings_are_refused_through_explore(site: Site):
    refuse_all(site, random.Random(1).sample(list(forbidden()), 500))
