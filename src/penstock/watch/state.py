"""State: how much there is, how far back it reaches, and when it becomes too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from penstock.watch.snapshot import LATE, snapshot

#: How many windows after the watermark are told apart; what is beyond counts as the last of them.
OPEN_WINDOWS = 62


@dataclass
class OpenWindows:
    """The open windows of each aggregation of each query, from the reports of its batches since the run began."""

    _ends: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def oldest(self, progress: Mapping[str, Any]) -> dict[str, str]:
        """The end of the oldest window that is open after this batch, by aggregation."""
        query = str(progress.get("name"))
        watermark = _micros(progress.get("eventTime", {}).get("watermark"))
        for name, row in (progress.get("observedMetrics") or {}).items():
            if name.startswith(LATE) and row and row.get("slide"):
                ends = self._ends.setdefault((query, name.removeprefix(LATE)), set())
                ends.update(_opened(row))
        found = {}
        for (owner, number), ends in self._ends.items():
            if owner == query:
                ends.difference_update([end for end in ends if end <= watermark])
                if ends:
                    found[number] = _moment(min(ends))
        return found


def _opened(row: Mapping[str, Any]) -> Iterator[int]:
    bits, oldest, slide = row.get("open") or 0, row.get("oldest") or 0, int(row["slide"])
    places = [place for place in range(OPEN_WINDOWS) if bits >> place & 1]
    return (oldest + (place - places[0]) * slide for place in places)


@dataclass
class StateLimit:
    """Says once, and again after it has shrunk, that a query's state has grown beyond a limit."""

    most_bytes: int
    _over: set[str] = field(default_factory=set)

    def crossed(self, progress: Mapping[str, Any]) -> dict[str, Any] | None:
        """The facts of a query whose state has just become too large."""
        seen = snapshot(progress)
        if seen.state_bytes <= self.most_bytes:
            self._over.discard(seen.query)
            return None
        if seen.query in self._over:
            return None
        self._over.add(seen.query)
        return {"sink": seen.query, "rows": seen.state_rows, "bytes": seen.state_bytes, "limit": self.most_bytes}


def default_limit() -> int:
    """Half of the machine's memory."""
    import psutil

    return int(psutil.virtual_memory().total // 2)


def _micros(timestamp: Any) -> int:
    if not timestamp:
        return 0
    return int(datetime.fromisoformat(str(timestamp).replace("Z", "+00:00")).timestamp() * 1_000_000)


def _moment(micros: int) -> str:
    moment = datetime.fromtimestamp(micros / 1_000_000, timezone.utc)
    return moment.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "").removesuffix(".000")
