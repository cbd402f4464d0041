"""Whatever a line of the event log has become, every view of it works, and says how many lines are damaged."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from tests.unit.watch.reports import event, progress, write_log

from penstock.cli.history import command as history
from penstock.cli.status import command as status
from penstock.events import CATALOGUE, EventTail
from penstock.model import Location, Webhook
from penstock.options import Secret
from penstock.page.live import Live
from penstock.watch.board import Board
from penstock.watch.metrics import prometheus
from penstock.watch.terminal import history_lines, lines, status_table
from penstock.watch.webhooks import Sender

DAMAGES = 500
METRICS = {
    "bad_records:trades": {"bad": 2},
    "late_rows:1": {"late": 3, "group": 0, "open": 5, "oldest": 1_704_103_200_000_000, "slide": 60_000_000},
    "rows_in:trades": {"rows": 40},
}
LOG = [
    event("lease_taken", "09:58:00", token=1, pid=1, host="a"),
    event("driver_started", "09:58:10", pid=2, attempt=0, supervisor="boot:17"),
    event("started", "09:59:00", sinks=["board"], attempt=0),
    event(
        "batch", "10:00:02", progress=progress(observedMetrics=METRICS), oldest_window_ends={"1": "2024-01-01 10:05"}
    ),
    event("batch", "10:00:04", progress=progress(1, latest=900), static_age_seconds={"rates": 3.5}),
    event("missed", "10:00:05", sink="board", target="mail", rows=7, batch=3, reason="x"),
    event("stalled", "10:00:32", sink="board", seconds=20.0, reason="x"),
    event("resumed", "10:00:33", sink="board"),
    event("query_restarting", "10:00:34", sink="board", reason="x"),
    event("gap", "10:00:35", sink="board", source="s", topic="t", partition=0, start=1, end=3, count=2, why="expired"),
    event("driver_ended", "10:01:01", pid=1, code=1, well=False, reason="x"),
]
WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    1.5,
    10**40,
    float("inf"),
    float("nan"),
    "",
    "x",
    "7",
    "[/x]",
    "\ud800\x1b[2J",
    [],
    [None],
    {},
]
WRONG += [{"": None}, {"a": {"0": "x"}}, {"a": {"0": 1e300}}, [[]], "2024-13-45T99:00:00Z", "[" * 5000]


def seed() -> int:
    found = int(os.environ.get("FAULT_SEED", "16"))
    print(f"FAULT_SEED={found}")
    return found


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a value that holds another one: its container and the key in it."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from places(value[key])


def damage_facts(chance: random.Random) -> bytes:
    """The log with one value that is missing, of another type or under another name."""
    events = copy.deepcopy(LOG)
    container, key = chance.choice(list(places(events)))
    how = chance.randrange(4)
    if how == 0:
        del container[key]
    elif how == 1 and isinstance(container, dict):
        container[f"{key}_"] = container.pop(key)
    else:
        container[key] = chance.choice(WRONG)
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


def damage_bytes(chance: random.Random) -> bytes:
    """The log with bytes that were changed, left out, put in or doubled."""
    whole = b"".join(json.dumps(each).encode() + b"\n" for each in LOG)
    at, count = chance.randrange(len(whole)), chance.choice([1, 1, 2, 100])
    before, there, after = whole[:at], whole[at : at + count], whole[at + count :]
    noise = bytes(chance.randrange(256) for _ in there)
    return before + chance.choice([noise, noise[:1], b"", there + there, there[::-1], b"[" * 100_000]) + after


def run(command: Any, *arguments: str) -> str:
    done = CliRunner().invoke(command, ["trades", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def show(storage: Path, folder: Path) -> None:
    """Read the log by every view there is."""
    events = list(EventTail(str(folder)).read_new())
    assert "\n".join(history_lines(events)).encode()
    board = Board(str(storage))
    board.refresh()
    (view,) = board.views()
    assert "\n".join(lines(view, 1.8e9)).encode()
    assert prometheus([view])
    for message in [Live(board).overview(), *Live(board)._full_state("trades"), *Live(board)._changes("trades")]:
        assert message
    for body in ("event", "slack", "rows"):
        hook = Webhook(Secret("http://127.0.0.1"), Location("p.yaml", 1), tuple(CATALOGUE), body)
        sender = Sender(hook, "trades", lambda _text: None, post=lambda _url, data: json.loads(data))
        for each in events:
            sender.enqueue(each)
        sender.send()


def print_in_terminal(storage: Path) -> None:
    """The same by the commands, which are slower."""
    assert run(history)
    for line in run(history, "--json").splitlines():
        json.loads(line)
    assert run(status).startswith("trades: ")
    board = Board(str(storage))
    board.refresh()
    with Path(os.devnull).open("w") as nowhere:
        Console(file=nowhere).print(status_table(board.views()))


@pytest.mark.parametrize("damage", [damage_bytes, damage_facts])
def test_a_thousand_damages_of_the_event_log_end_no_view(
    damage: Callable[[random.Random], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    file = write_log(tmp_path / ".penstock", "trades", LOG) / "2024-01-01.jsonl"
    chance, failures = random.Random(seed()), []

    for number in range(DAMAGES):
        file.write_bytes(damage(chance))
        try:
            show(tmp_path / ".penstock", file.parent)
            if number % 10 == 0:
                print_in_terminal(tmp_path / ".penstock")
        except Exception as error:
            failures.append(f"{number}: {type(error).__name__}: {error}")

    assert failures == []


def test_the_history_says_how_many_lines_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    file = write_log(tmp_path / ".penstock", "trades", LOG[:3]) / "2024-01-01.jsonl"
    file.write_text(file.read_text() + "{\n[1]\n")

    done = CliRunner().invoke(history, ["trades"])

    assert done.stderr == "2 lines of the event log are damaged and left out\n"
    assert len(done.stdout.splitlines()) == 3
    assert "  2 lines of the event log are damaged and left out" in run(status).splitlines()
