"""penstock status, top and logs, on event logs as runs leave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.unit.watch.reports import event, progress, write_log

from penstock.cli import penstock
from penstock.errors import CallError

STARTED = event("started", "09:59:00", sinks=["board"])
BATCH = event("batch", "10:00:02", progress=progress(end=250, latest=1250))
STOPPED = event("stopped", "10:01:00")


def call(*arguments: str) -> str:
    result = CliRunner().invoke(penstock, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_status_says_what_matters_of_each_query(tmp_path: Path):
    failed = event("failed", "10:00:59", reason="sink 'board': no space\x1b[31m left")
    write_log(tmp_path, "trades", [STARTED, BATCH, failed, STOPPED])

    shown = call("status", "trades", "--storage", str(tmp_path)).splitlines()

    assert shown[0].startswith("trades: failed for ")
    assert shown[1:] == [
        "  1 failure, 0 restarts",
        "  last error 2024-01-01 10:00:59: sink 'board': no space [31m left",
        "  board: batch 0 at 2024-01-01 10:00:02, 500 rows, idle, 2.00 s",
        "    behind: 1,000 rows; most in trades/0: 1,000",
        "    watermark 2024-01-01 09:58:00",
        "    state: 4 rows, 4.3 kB of memory",
        "    left out: 2 bad records of trades",
        "    promise: kafka: at-least-once",
    ]


def test_status_as_json_is_every_fact(tmp_path: Path):
    write_log(tmp_path, "trades", [STARTED, BATCH, STOPPED])

    (view,) = json.loads(call("status", "--json", "--storage", str(tmp_path)))

    assert (view["name"], view["state"], view["rows_behind"]) == ("trades", "stopped", 1000)
    assert view["queries"][0]["behind"] == {"trades": {"trades/0": 1000, "trades/1": 0}}


def test_status_finds_the_storage_of_a_file_and_the_nearest_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "trades.yaml"
    file.write_text("sources: {a: {rate: }}\nsinks: {b: {from: a, console: }}\n")
    write_log(tmp_path / ".penstock", "trades", [STARTED, STOPPED])
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")

    assert call("status", str(file)).startswith("trades: stopped")
    assert call("status").startswith("trades: stopped")


def test_status_of_a_pipeline_that_never_ran_offers_the_nearest_name(tmp_path: Path):
    write_log(tmp_path, "trades", [STARTED])

    with pytest.raises(CallError, match=r"no pipeline 'trads' has run .*; did you mean 'trades'\?"):
        call("status", "trads", "--storage", str(tmp_path))
    with pytest.raises(CallError, match="neither a file nor a valid pipeline name"):
        call("status", "../x", "--storage", str(tmp_path))


def test_status_of_an_empty_storage_says_so(tmp_path: Path):
    assert call("status", "--storage", str(tmp_path)) == "no pipeline has run here yet\n"


def test_logs_shows_the_end_of_the_drivers_log_safe_for_a_terminal(tmp_path: Path):
    log = tmp_path / "trades" / "logs" / "driver.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\nthree \x1b]0;evil\x07\n")

    assert call("logs", "trades", "-n", "2", "--storage", str(tmp_path)) == "two\nthree  ]0;evil \n"
    with pytest.raises(CallError, match=r"driver.log does not exist; run the pipeline"):
        call("logs", "other", "--storage", str(tmp_path))


def test_top_moves_with_the_keys_and_shows_more_on_enter(tmp_path: Path):
    from rich.console import Console

    from penstock.cli.top import Screen
    from penstock.watch.board import Board

    write_log(tmp_path, "clicks", [STARTED, STOPPED])
    write_log(tmp_path, "trades", [STARTED, BATCH, STOPPED])
    board = Board(str(tmp_path))
    board.refresh()
    screen = Screen(board)

    for key in ("down", "down", "down", "enter"):
        screen.press(key)
    console = Console(width=120, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115
    console.print(screen.draw())
    shown = console.export_text()

    assert screen.selected == 1
    assert "promise: kafka: at-least-once" in shown
    assert "stopped" in shown
    for key in ("k", "escape", "", "q"):
        screen.press(key)
    assert (screen.selected, screen.details, screen.quit) == (0, False, True)


def test_top_without_a_terminal_says_it_once(tmp_path: Path):
    write_log(tmp_path, "trades", [STARTED, BATCH, STOPPED])

    assert call("top", "--storage", str(tmp_path)).startswith("trades: stopped")


@pytest.mark.parametrize("verb", ["status", "history"])
def test_a_folder_of_output_that_is_called_like_the_pipeline_is_not_taken_for_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
):
    write_log(tmp_path / ".penstock", "trades", [STARTED, STOPPED])
    (tmp_path / "trades").mkdir()
    monkeypatch.chdir(tmp_path)

    assert "stopped" in call(verb, "trades")
