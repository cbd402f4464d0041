"""The live page: pipelines of a storage in a browser, on loopback, behind a token. No Spark in this process."""

from __future__ import annotations

from penstock.page.app import app
from penstock.page.server import Served, served

__all__ = ["Served", "app", "served"]
