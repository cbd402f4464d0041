from __future__ import annotations

import ast
import json
import string
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.events import CATALOGUE, EventKind, EventLog, describe, kind_of
from penstock.watch.metrics import STATES

ROOMS = ("driver", "engine", "supervise", "cli", "watch")
EMITTERS = ("emit", "tell", "note", "append", "record", "append_event", "emit_event", "log_event")
FORMATTER = string.Formatter()


def test_events_are_appended_line_by_line_also_by_the_next_run(tmp_path: Path):
    folder = tmp_path / "events"
    for run in (1, 2):
        log = EventLog(str(folder))
        log.append("started", run=run)
        log.close()

    events = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    assert [(event["what"], event["run"]) for event in events] == [("started", 1), ("started", 2)]


def test_threads_do_not_write_into_each_others_lines(tmp_path: Path):
    log = EventLog(str(tmp_path / "events"))
    threads = [threading.Thread(target=lambda: [log.append("x", text="y" * 500) for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (file,) = (tmp_path / "events").iterdir()
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 800


@dataclass(frozen=True)
class Emission:
    """A call in the source that emits an event."""

    where: str
    what: str
    fields: frozenset[str]
    is_complete: bool
    """Whether every field is written out, without `**`."""


def emissions() -> Iterator[Emission]:
    root = Path(penstock.__file__).parent
    for file in sorted(path for room in ROOMS for path in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and (what := emitted_name(node)):
                fields = frozenset(keyword.arg for keyword in node.keywords if keyword.arg)
                complete = all(keyword.arg for keyword in node.keywords)
                yield Emission(f"{file.relative_to(root)}:{node.lineno}", what, fields, complete)


def emitted_name(call: ast.Call) -> str:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name.strip("_") not in EMITTERS or len(call.args) != 1 or not isinstance(call.args[0], ast.Constant):
        return ""
    to_a_list = name == "append" and "log" not in ast.unparse(call.func)
    return "" if to_a_list else str(call.args[0].value)


EMISSIONS = list(emissions())


def used_fields(kind: EventKind) -> set[str]:
    parsed = FORMATTER.parse(kind.sentence)
    return {name.partition("[")[0] for _, name, _, _ in parsed if name}


def test_the_catalogue_has_every_event_that_the_code_emits_and_no_other():
    assert {each.what for each in EMISSIONS} == set(CATALOGUE)


@pytest.mark.parametrize("emission", EMISSIONS, ids=lambda each: f"{each.where} {each.what}")
def test_an_event_carries_the_fields_that_its_kind_declares(emission: Emission):
    kind = CATALOGUE[emission.what]

    assert emission.fields <= set(kind.fields)
    if emission.is_complete:
        assert used_fields(kind) <= emission.fields


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.name)
def test_a_sentence_is_formatted_from_the_declared_fields(kind: EventKind):
    facts: dict[str, Any] = dict.fromkeys(kind.fields, 7)
    facts["progress"] = {"name": "out", "batchId": 3, "numInputRows": 1000}

    assert used_fields(kind) <= set(kind.fields)
    assert describe({"what": kind.name, **facts}) == kind.sentence.format(**facts)


@pytest.mark.parametrize("kind", CATALOGUE.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("value", [None, "", "text", 1e400, -1, [], ["a", "b"], {"a": {}}, "\x1b[2J\nnext line"])
def test_a_damaged_event_is_shown_in_one_line(kind: EventKind, value: object):
    whole = {"what": kind.name, **dict.fromkeys(kind.fields, value)}

    for event in (whole, *({**whole, name: None} for name in kind.fields), {"what": kind.name}):
        text = describe(event)
        assert text
        assert text.isprintable()
    for left_out in kind.fields:
        assert describe({name: given for name, given in whole.items() if name != left_out})


def test_an_unknown_event_is_shown_with_its_facts():
    event = {"at": "2026-02-03T10:00:00+00:00", "what": "from_the_future", "a": 1, "text": "x" * 100}

    assert describe(event) == f"from_the_future a=1 text={'x' * 77}..."
    assert (kind_of(event).level, kind_of(event).state) == ("info", None)


def test_a_driver_that_ended_well_is_not_an_error():
    well = {"what": "driver_ended", "pid": 7, "code": 0, "well": True, "reason": ""}

    assert describe(well) == "driver ended"
    assert (kind_of(well).level, kind_of(well).state) == ("info", None)
    killed = {**well, "well": False, "reason": "killed"}
    assert describe(killed) == "driver ended: killed"
    assert (kind_of(killed).level, kind_of(killed).state) == ("error", "failed")


def test_every_state_of_the_catalogue_is_one_that_metrics_know():
    assert {kind.state for kind in CATALOGUE.values() if kind.state} <= set(STATES)


def test_webhooks_send_failures_restarts_and_lost_rows_by_default():
    assert {kind.name for kind in CATALOGUE.values() if kind.webhook} == {
        "failed",
        "restarting",
        "query_restarting",
        "gave_up",
        "lease_lost",
        "missed",
        "gap",
        "state_limit",
        "disk_low",
        "target_away",
    }
