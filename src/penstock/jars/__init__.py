"""The pinned list of jars, and how they are fetched and checked."""

from __future__ import annotations

from penstock.jars.cache import Problem, folder, paths, problems, verify
from penstock.jars.fetching import Progress, fetch
from penstock.jars.lock import GROUPS, LOCK, Jar, Lock

__all__ = ["GROUPS", "LOCK", "Jar", "Lock", "Problem", "Progress", "fetch", "folder", "paths", "problems", "verify"]
