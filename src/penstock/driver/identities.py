"""A topic that is deleted and made again while the pipeline runs: offsets alone do not show it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.errors import RunError, UnreachableError
from penstock.model import Pipeline, Source

_LOOK_SECONDS = 10.0


@dataclass
class Identities:
    """Asks the sources now and then what they read; `changed` is why the pipeline cannot go on."""

    pipeline: Pipeline
    wake: Callable[[], None]
    changed: RunError | None = None
    _known: dict[str, dict[str, str]] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Look from a thread, until `stop`."""
        self._known = {source.name: ids for source in self.pipeline.sources if (ids := source.connector.identity())}
        if self._known:
            threading.Thread(target=self._watch, name="identities", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_SECONDS) and self.changed is None:
            for source in self.pipeline.sources:
                self._look(source)

    def _look(self, source: Source) -> None:
        known = self._known.get(source.name, {})
        try:
            now = source.connector.identity() if known else {}
        except UnreachableError:
            # A broker that is away is for the queries to notice; they wait for it longer than we would.
            return
        other = [name for name in known if name in now and now[name] != known[name]]
        if other:
            says = f"{', '.join(other)} was deleted and made again while it was read"
            fix = "'on_data_loss: earliest' reads it from its beginning, 'skip' from its end"
            may = getattr(source.connector, "on_data_loss", "fail") != "fail"
            self.changed = RunError(f"{source.at}: source {source.name!r}: {says}; {fix}", retry=may)
            self.wake()
