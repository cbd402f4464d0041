"""The live page: the pipelines of a storage in a browser. This process does not start Spark."""

from __future__ import annotations

from penstock.page.app import app
from penstock.page.server import ServedPage, serve

__all__ = ["ServedPage", "app", "serve"]
