"""Every example runs as its README says, with the real parts."""

from __future__ import annotations

import json
import shutil
import socketserver
import threading
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import pytest
from tests.services.command import EXAMPLES, consume, penstock, produce, started, until

from penstock.feeds import FEEDS


def example(name: str, tmp_path: Path) -> Path:
    """A copy of an example's folder, so that running it leaves nothing behind."""
    return Path(shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".penstock", "input")))


def made_up_trades(count: int) -> list[bytes]:
    return [record.value for record in islice(FEEDS["trades"](7), count)]


def test_trades_are_summed_in_windows_of_their_own_time(broker: str, topics: dict[str, str], tmp_path: Path):
    folder = example("trades", tmp_path)
    file = folder / "trades.yaml"
    text = file.read_text().replace("[trades]", f"[{topics['FROM_TOPIC']}]")
    file.write_text(text.replace("topic: trade-totals", f"topic: {topics['TO_TOPIC']}"))
    values = made_up_trades(3000)
    produce(broker, topics["FROM_TOPIC"], [*values, b"not json", b'{"Type": "BUY"}'])

    ran = penstock("run", folder, "--once", folder=tmp_path, KAFKA_SERVERS=broker)

    assert ran.returncode == 0, ran.stderr
    assert "3,002 rows" in ran.stderr
    assert "2 bad records left out" in ran.stderr
    assert newest_totals(broker, topics["TO_TOPIC"]) == expected_totals(values)


def newest_totals(broker: str, topic: str) -> dict[str, tuple[int, int]]:
    records = [json.loads(value) for value in consume(broker, topic)]
    return {each["start"][:19].replace("T", " "): (each["TotalBuy"], each["TotalSell"]) for each in records}


def expected_totals(values: list[bytes]) -> dict[str, tuple[int, int]]:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for value in values:
        trade = json.loads(value)
        moment = datetime.strptime(trade["CreatedTime"], "%Y-%m-%d %H:%M:%S")
        start = moment - timedelta(minutes=moment.minute % 15, seconds=moment.second)
        sums[str(start)][trade["Type"]] += trade["Amount"]
    return {start: (sum_["BUY"], sum_["SELL"]) for start, sum_ in sums.items()}


def test_invoices_are_flattened_one_file_a_batch_and_archived(tmp_path: Path):
    folder = example("invoices", tmp_path)
    shutil.copytree(folder / "samples", folder / "input")

    ran = penstock("run", folder, "--once", folder=tmp_path)

    assert ran.returncode == 0, ran.stderr
    written = [json.loads(line) for file in folder.glob("output/*.json") for line in file.read_text().splitlines()]
    invoices = [json.loads(line) for file in folder.glob("samples/*.json") for line in file.read_text().splitlines()]
    items = [(one["InvoiceNumber"], item["ItemCode"]) for one in invoices for item in one["InvoiceLineItems"]]
    assert sorted((row["InvoiceNumber"], row["ItemCode"]) for row in written) == sorted(items)
    delivered = {one["InvoiceNumber"]: one["DeliveryAddress"]["City"] for one in invoices if "DeliveryAddress" in one}
    assert {row["InvoiceNumber"]: row["City"] for row in written if "City" in row} == delivered
    assert "3 batches" in ran.stderr
    # Spark cleans up behind a batch when the next one begins, so the newest file is still there.
    assert len(list(folder.glob("archive/**/*.json"))) == 2
    assert len(list(folder.glob("input/*.json"))) == 1


def test_words_of_a_socket_are_counted_completely(tmp_path: Path):
    folder = example("wordcount", tmp_path)
    with (
        lines_server(["to be or not", "to be"]) as port,
        started("run", folder, folder=tmp_path, PORT=str(port)) as run,
    ):
        wanted = [("be", "2"), ("to", "2"), ("not", "1"), ("or", "1")]
        until(lambda: last_table(run.printed) == wanted or run.process.poll() is not None, f"the counts\n{run.said}")

        assert last_table(run.printed) == wanted, run.said


def last_table(printed: str) -> list[tuple[str, ...]]:
    rows = [row.split("|")[1:-1] for row in printed.rsplit("Batch:", 1)[-1].splitlines() if row.startswith("|")]
    return [tuple(cell.strip() for cell in row) for row in rows[1:]]


class lines_server:  # noqa: N801
    """A TCP server that sends some lines to whoever connects, and keeps the connection open."""

    def __init__(self, lines: list[str]) -> None:
        done = self.done = threading.Event()

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                self.request.sendall("".join(f"{line}\n" for line in lines).encode())
                done.wait()

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def __enter__(self) -> int:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return int(self.server.server_address[1])

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.server.shutdown()
        self.server.server_close()


def purchases(values: list[bytes]) -> list[str]:
    return sorted(value.decode() for value in values if json.loads(value)["Type"] == "BUY")


def copied(broker: str, topic: str) -> list[str]:
    return sorted(json.dumps(json.loads(value)) for value in consume(broker, topic))


def test_copy_twice_copies_every_record_exactly_once(broker: str, topics: dict[str, str], tmp_path: Path):
    folder = example("copy", tmp_path)
    file = folder / "copy.yaml"
    values = made_up_trades(2000)
    produce(broker, topics["FROM_TOPIC"], values[:1200])
    first = penstock("run", file, "--once", folder=tmp_path, KAFKA_SERVERS=broker, **topics)

    produce(broker, topics["FROM_TOPIC"], values[1200:])
    second = penstock("run", file, "--once", folder=tmp_path, KAFKA_SERVERS=broker, **topics)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert "copied: 1,200 rows" in first.stderr
    assert "copied: 800 rows" in second.stderr
    assert copied(broker, topics["TO_TOPIC"]) == purchases(values)


@pytest.mark.parametrize("trigger", ["continuous", "real-time"])
def test_copy_runs_with_the_low_latency_triggers(broker: str, topics: dict[str, str], tmp_path: Path, trigger: str):
    folder = example("copy", tmp_path)
    values = made_up_trades(300)
    produce(broker, topics["FROM_TOPIC"], values)

    with started("run", folder / f"copy-{trigger}.yaml", folder=tmp_path, KAFKA_SERVERS=broker, **topics) as run:
        until(
            lambda: (
                run.process.poll() is not None or len(consume(broker, topics["TO_TOPIC"])) >= len(purchases(values))
            ),
            f"the copies; it says\n{run.said}",
        )

        assert run.process.poll() is None, run.said
        assert copied(broker, topics["TO_TOPIC"]) == purchases(values)


def test_a_killed_copy_is_completed_by_running_it_again(broker: str, topics: dict[str, str], tmp_path: Path):
    folder = example("copy", tmp_path)
    file = folder / "copy.yaml"
    # Many small batches, so that the kill comes in the middle of the work.
    file.write_text(file.read_text().replace("start: earliest", "start: earliest, records_per_trigger: 2000"))
    values = made_up_trades(60_000)
    produce(broker, topics["FROM_TOPIC"], values)

    with started("run", file, "--once", folder=tmp_path, KAFKA_SERVERS=broker, **topics) as run:
        until(lambda: "batch 3," in run.said or run.process.poll() is not None, f"the fourth batch\n{run.said}")
        assert run.process.poll() is None, run.said
        run.kill()
    before = len(consume(broker, topics["TO_TOPIC"]))
    again = penstock("run", file, "--once", folder=tmp_path, KAFKA_SERVERS=broker, **topics)

    assert again.returncode == 0, again.stderr
    assert before < len(purchases(values))
    found = Counter(copied(broker, topics["TO_TOPIC"]))
    wanted = Counter(purchases(values))
    assert set(found) == set(wanted), "something was lost or invented"
    # Spark's Kafka sink is at-least-once: at most the batch under way may be there twice.
    assert sum((found - wanted).values()) <= 2000
    assert not wanted - found
