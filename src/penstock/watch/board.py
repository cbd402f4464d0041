"""Every pipeline of a storage, kept up to date by reading what is new in their event logs."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from penstock.events import EventTail, events_folder, first_day
from penstock.processes import was_running_at
from penstock.storage.manifest import MANIFEST
from penstock.watch.reducer import PipelineReducer
from penstock.watch.views import PipelineView

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: How far back a view looks when the pipeline's file does not say.
HISTORY_SECONDS = 7 * 86_400.0


@dataclass
class _Followed:
    following: EventTail
    watch: PipelineReducer


@dataclass
class Board:
    """The pipelines of a storage, or one of them; `refresh` reads, everything else only looks."""

    storage: str
    only: str = ""
    _followed: dict[str, _Followed] = field(default_factory=dict)

    def refresh(self) -> set[str]:
        """Read what is new; the names of the pipelines that have something new."""
        changed = set()
        for name in self._names():
            followed = self._followed.get(name) or self._follow(name)
            before = followed.watch.changes
            for event in followed.following.new():
                if event["what"] in ("started", "lease_taken", "driver_started"):
                    # The file may have changed since the last run.
                    followed.watch.card = self._card(name)
                followed.watch.take(event)
            if followed.watch.changes != before:
                changed.add(name)
        return changed

    def names(self) -> list[str]:
        """The pipelines that are known since the last `refresh`."""
        return sorted(self._followed)

    def watch(self, name: str) -> PipelineReducer | None:
        """One pipeline, if it is known."""
        followed = self._followed.get(name)
        return followed.watch if followed else None

    def views(self, now: float | None = None) -> list[PipelineView]:
        """Every pipeline at a moment."""
        return [view for name in self.names() if (view := self.view(name, now)) is not None]

    def view(self, name: str, now: float | None = None) -> PipelineView | None:
        """One pipeline at a moment."""
        followed = self._followed.get(name)
        if followed is None:
            return None
        view = followed.watch.view(time.time() if now is None else now, is_alive)
        return view if not followed.following.broken else _with_broken(view, followed.following.broken)

    def _follow(self, name: str) -> _Followed:
        card = self._card(name)
        keep = float(card.get("history_seconds") or HISTORY_SECONDS)
        since = first_day(keep, datetime.now(timezone.utc))
        following = EventTail(events_folder(self.storage, name), since)
        self._followed[name] = _Followed(following, PipelineReducer(name, card))
        return self._followed[name]

    def _names(self) -> Iterator[str]:
        import fsspec

        if self.only:
            yield self.only
            return
        system, path = fsspec.url_to_fs(self.storage)
        system.invalidate_cache()
        try:
            found = system.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return
        for each in found:
            name = str(each["name"]).rstrip("/").rsplit("/", 1)[-1]
            if each["type"] == "directory" and NAME.fullmatch(name) and self._is_pipeline(name):
                yield name

    def _is_pipeline(self, name: str) -> bool:
        import fsspec

        system, path = fsspec.url_to_fs(events_folder(self.storage, name))
        return name in self._followed or bool(system.isdir(path))

    def _card(self, name: str) -> Mapping[str, Any]:
        import fsspec

        try:
            with fsspec.open(f"{self.storage.rstrip('/')}/{name}/{MANIFEST}", "rb") as file:
                found = json.load(file)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            # A run from before there were cards, or one that was killed while it wrote its card: views do without.
            return {}
        return found if isinstance(found, dict) and isinstance(found.get("nodes", []), list) else {}


def is_alive(host: str, pid: int, at: float) -> bool:
    """Whether the process that wrote an event at this time still runs; of other machines we say yes."""
    return host != socket.gethostname() or was_running_at(pid, at)


def _with_broken(view: PipelineView, broken: int) -> PipelineView:
    from dataclasses import replace

    return replace(view, broken_lines=broken)
