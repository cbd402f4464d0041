"""`restart`: when a pipeline that has failed is started again."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from penstock.load.reading import Reading
from penstock.load.validate import read_options
from penstock.model import Restart
from penstock.options import Duration, Options, seconds
from penstock.words import shown


class _Restart(Options):
    limit: int = Field(default=5, ge=0, description="How many restarts in `within` are allowed.")
    within: Duration = Field(default="10 minutes", description="The time that `limit` is about.")
    backoff: Duration = Field(default="1 second", description="The wait before the first restart; it doubles.")
    most: Duration = Field(default="1 minute", description="The longest wait.")
    jitter: float = Field(default=0.2, ge=0, le=1, description="The part of a wait that is left to chance.")
    healthy_after: Duration = Field(default="5 minutes", description="A run of this length forgets what was before.")
    stalled_after: Duration = Field(default="10 minutes", description="A batch may take at least this long.")
    stalled_times: float = Field(default=10.0, ge=1, description="And this many times as long as is usual.")


def read_restart(reading: Reading) -> Restart:
    """The policy in the file, or the usual one."""
    raw = reading.document.values.get("restart")
    if raw is None:
        return Restart()
    if not isinstance(raw, Mapping):
        says = f"'restart' is {shown(raw)}, expected a mapping"
        reading.found("wrong-type", ("restart",), says, "write 'restart: {limit: 5, within: 10 minutes}'")
        return Restart()
    given = read_options(reading, _Restart, dict(raw), ("restart",), "'restart'")
    if given is None:
        return Restart()
    return Restart(
        limit=given.limit,
        within_seconds=seconds(given.within),
        backoff_seconds=seconds(given.backoff),
        most_seconds=seconds(given.most),
        jitter=given.jitter,
        healthy_seconds=seconds(given.healthy_after),
        stalled_seconds=seconds(given.stalled_after),
        stalled_times=given.stalled_times,
    )
