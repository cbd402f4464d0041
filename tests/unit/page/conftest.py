"""A page of a storage with one pipeline, served for real."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.page.requests import Answer, request
from tests.unit.watch.reports import event, progress, write_log

from penstock.page import serve

JSON = "application/json"


@dataclass(frozen=True)
class Site:
    """The page and the token to reach it."""

    port: int
    token: str
    storage: Path

    def get(self, target: str, **headers: str | None) -> Answer:
        """Send a GET with the token."""
        return request(self.port, target, **{"authorization": f"Bearer {self.token}", **headers})

    def post(self, target: str, body: object, **headers: str | None) -> Answer:
        """Send a POST as the page does."""
        csrf = json.loads(self.get("/api/session").body)["csrf"]
        ours = {
            "origin": f"http://127.0.0.1:{self.port}",
            "x_penstock_csrf": csrf,
            "content_type": JSON,
            "authorization": f"Bearer {self.token}",
        }
        return request(self.port, target, "POST", json.dumps(body).encode(), **{**ours, **headers})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page that is served while the tests of a file run."""
    storage = tmp_path_factory.mktemp("storage")
    started = event("started", "09:59:00", sinks=["board"])
    failed = event("failed", "10:01:00", reason="</script><script>alert(1)</script>")
    write_log(storage, "trades", [started, event("batch", "10:00:02", progress=progress()), failed])
    with serve(str(storage)) as page:
        yield Site(int(page.address.rsplit(":", 1)[1]), page.token, storage)
