"""The pinned jars: their lock file, download and verification."""

from __future__ import annotations

from penstock.jars.cache import Problem, cache_folder, find_problems, paths, verify
from penstock.jars.fetching import Progress, fetch
from penstock.jars.lock import GROUPS, LOCK, Jar, Lock

__all__ = [
    "GROUPS",
    "LOCK",
    "Jar",
    "Lock",
    "Problem",
    "Progress",
    "cache_folder",
    "fetch",
    "find_problems",
    "paths",
    "verify",
]
