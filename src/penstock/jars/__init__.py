"""The pinned jars: their lock file, download and verification."""

from __future__ import annotations

from penstock.jars.ivy import Progress, fetch
from penstock.jars.lock import GROUPS, LOCK, Jar, Lock, Problem, cache_folder, find_problems, paths, verify

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
