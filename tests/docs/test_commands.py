"""Every command in the blocks for the shell of README, docs and examples runs, as it is written.

What the examples then have written is judged here too. A command without an end is given Ctrl-C when it has done its
work; the server of an HTTP stream is one of ours. The pages share a broker with every kind of listener, whose topics
are deleted between them, and the Cassandra of all tests.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import pytest
from tests.docs.console import ROOT
from tests.docs.follow import Followed, Reader, Topics, commands
from tests.services.command import produce
from tests.unit.feeds.streams import sends, serving

from penstock import jars
from penstock.connectors.kafka import create_topics
from penstock.feeds import FEEDS
from penstock.services import KafkaBroker
from penstock.services.kafka_listeners import LISTENERS

ALL_PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
PAGES = [str(page.relative_to(ROOT)) for page in ALL_PAGES if commands(page)]
#: A page about a pipeline that has run, after the page that runs it.
SEQUENCES = [("examples/trades/README.md", "docs/howto/change.md")]
#: What topics have before the commands of a page run.
GIVEN = {
    "docs/howto/change.md": ("trades", [record.value for record in islice(FEEDS["trades"](7), 1000)]),
    "examples/trades/README.md": ("trades", [b"not json", b'{"Type": "BUY"}']),
}
#: What arrives once the first batch is done: a login from before all others, and words that were counted before.
LATER = {
    "examples/counts/README.md": ("lines", b"our  team", "board"),
    "examples/logins/README.md": (
        "logins",
        b'{"login_id": "100001", "created_time": "2020-09-09 09:00:00"}',
        "last_login",
    ),
}
#: The queries whose first batch must be done.
QUERIES = {"examples/eventhubs/README.md": ("rows", "number", "bars")}

Follow = Callable[[str], Followed]


@pytest.fixture(scope="module")
def reader(
    tmp_path_factory: pytest.TempPathFactory, common: Path, cassandra_address: str, cassandra_session: Any
) -> Iterator[Reader]:
    """A reader whose local services run already."""
    dev = tmp_path_factory.mktemp("services")
    (dev / "cassandra").symlink_to(common / "cassandra")
    for keyspace in ("market", "site", "words"):
        cassandra_session.execute(f"DROP KEYSPACE IF EXISTS {keyspace}")
    kafka = KafkaBroker(dev / "kafka", jars.fetch([KafkaBroker.jars]), None, LISTENERS)
    servers = kafka.start(lambda _: None)
    with serving(sends(b'{"id": "1", "user": {"id": "7"}}\r\n', then="stall")) as server:
        yield Reader(tmp_path_factory.mktemp("readers"), dev, Topics(servers), server.url)
    kafka.stop()


@pytest.fixture(scope="module")
def follow(reader: Reader) -> Follow:
    """Follows a page once, however many tests ask for it."""
    known: dict[str, Followed] = {}

    def follow_one(page: str, before: Followed | None = None) -> Followed:
        servers = reader.topics.servers
        if page in GIVEN:
            topic, values = GIVEN[page]
            create_topics(servers, (topic,))
            produce(servers, topic, values)
        return reader.follow(ROOT / page, enough(page, servers), before)

    def followed(page: str) -> Followed:
        first, then = next((pair for pair in SEQUENCES if page in pair), (page, ""))
        if page not in known:
            reader.topics.clear()
            known[first] = follow_one(first)
            if then:
                known[then] = follow_one(then, known[first])
        return known[page]

    return followed


def enough(page: str, servers: str) -> Callable[[str], bool] | None:
    """When the pipeline of a page has done what is judged."""
    if page in QUERIES:
        return lambda printed: all(f"{name}: batch 0" in printed for name in QUERIES[page])
    if page == "examples/wordcount/README.md":
        return lambda printed: len(last_table(printed)) > 1
    if page not in LATER:
        return None
    topic, value, query = LATER[page]
    sent: list[bytes] = []

    def second_batch(printed: str) -> bool:
        if not sent and f"{query}: batch 0" in printed:
            produce(servers, topic, [value])
            sent.append(value)
        return f"{query}: batch 1" in printed

    return second_batch


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_page_runs(page: str, follow: Follow):
    followed = follow(page)

    assert followed.code == 0, f"{page}: {list(followed.printed)[-1]}\nends with {followed.code}\n{followed.last}"


def test_the_demo_loses_nothing_and_counts_nothing_twice(follow):
    printed = follow("README.md").printed["make demo"]

    sums = re.findall(r"^in (?:the topic|Cassandra|the Delta table) +([\d,]+) +([\d,]+)$", printed, re.MULTILINE)
    assert len(sums) == 3, printed
    assert len(set(sums)) == 1, printed


def test_trades_are_summed_in_windows_of_their_own_time(follow):
    followed = follow("examples/trades/README.md")

    assert "5,002 rows" in followed.last
    assert "2 bad records left out" in followed.last
    assert newest_totals(followed.topics["trade-totals"]) == expected_totals(followed.topics["trades"])


def newest_totals(values: list[bytes]) -> dict[str, tuple[int, int]]:
    records = [json.loads(value) for value in values]
    return {each["start"][:19].replace("T", " "): (each["TotalBuy"], each["TotalSell"]) for each in records}


def expected_totals(values: list[bytes]) -> dict[str, tuple[int, int]]:
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for value in values:
        if value not in GIVEN["examples/trades/README.md"][1]:
            trade = json.loads(value)
            moment = datetime.strptime(trade["CreatedTime"], "%Y-%m-%d %H:%M:%S")
            start = moment - timedelta(minutes=moment.minute % 15, seconds=moment.second)
            sums[str(start)][trade["Type"]] += trade["Amount"]
    return {start: (sum_["BUY"], sum_["SELL"]) for start, sum_ in sums.items()}


@pytest.mark.parametrize("example", ["copy", "secure-kafka"])
def test_purchases_are_copied_from_topic_to_topic(follow, example):
    followed = follow(f"examples/{example}/README.md")

    found = sorted(json.dumps(json.loads(value)) for value in followed.topics["purchases"])
    wanted = sorted(value.decode() for value in followed.topics["trades"] if json.loads(value)["Type"] == "BUY")
    assert len(followed.topics["trades"]) == 5000
    assert "copied: 5,000 rows" in followed.last
    assert found == wanted


def test_invoices_are_flattened_one_file_a_batch_and_archived(follow):
    followed = follow("examples/invoices/README.md")

    folder = followed.clone / "examples" / "invoices"
    written = [json.loads(line) for file in folder.glob("output/*.json") for line in file.read_text().splitlines()]
    invoices = [json.loads(line) for file in folder.glob("samples/*.json") for line in file.read_text().splitlines()]
    items = [(one["InvoiceNumber"], item["ItemCode"]) for one in invoices for item in one["InvoiceLineItems"]]
    assert sorted((row["InvoiceNumber"], row["ItemCode"]) for row in written) == sorted(items)
    delivered = {one["InvoiceNumber"]: one["DeliveryAddress"]["City"] for one in invoices if "DeliveryAddress" in one}
    assert {row["InvoiceNumber"]: row["City"] for row in written if "City" in row} == delivered
    assert "3 batches" in followed.printed["penstock run examples/invoices --once"]
    # Spark cleans up behind a batch when the next one begins, so the newest file is still there.
    assert len(list(folder.glob("archive/**/*.json"))) == 2
    assert len(list(folder.glob("input/*.json"))) == 1


def test_words_of_a_socket_are_counted_completely(follow):
    followed = follow("examples/wordcount/README.md")

    lines = [record.value.decode() for record in islice(FEEDS["lines"](7), 1000)]
    after_each_line = accumulate(map(Counter, map(str.split, lines)))
    assert last_table(followed.last) in map(shown, after_each_line), followed.last


def shown(counts: Counter[str]) -> list[tuple[str, ...]]:
    """The rows of the console: the most frequent words first, fifty of them."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))[:50]
    return [(word, str(count)) for word, count in rows]


def last_table(printed: str) -> list[tuple[str, ...]]:
    rows = [row.split("|")[1:-1] for row in printed.rsplit("Batch:", 1)[-1].splitlines() if row.startswith("|")]
    return [tuple(cell.strip() for cell in row) for row in rows[1:]]


def test_five_events_are_sent_read_counted_and_drawn(follow):
    followed = follow("examples/eventhubs/README.md")

    events = [f"event {number} of the first file" for number in range(1, 6)]
    assert sorted(value.decode() for value in followed.topics["demo"]) == events
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in followed.last.splitlines() if "|" in line]
    assert sorted(line[0] for line in lines if line[0].startswith("event ")) == events
    assert ["5"] in lines, "the number of events"
    assert sum(len(line[2]) for line in lines if len(line) == 3 and set(line[2]) == {"#"}) == 5, "a mark each"


def test_words_are_counted_into_a_table_that_is_made_at_the_first_start(follow, cassandra_session):
    followed = follow("examples/counts/README.md")

    words = Counter(word for value in followed.topics["lines"] for word in value.decode().split())
    assert {row.word: row.count for row in cassandra_session.execute("SELECT * FROM words.counts")} == words


def test_the_last_login_of_each_user_is_written_back_and_a_late_one_is_not(follow, cassandra_session):
    followed = follow("examples/logins/README.md")

    users = {"100001": "Prashant", "100009": "Alisha", "100087": "Abdul", "100109": "Ketan"}
    logins = [json.loads(value) for value in followed.topics["logins"]]
    known = [login for login in logins if login["login_id"] in users]
    last = {
        login["login_id"]: login["created_time"] for login in sorted(known, key=lambda login: login["created_time"])
    }
    assert len(logins) == 1001 > len(known), "a late login, and some of unknown users"
    assert {
        row.login_id: (row.user_name, str(row.last_login))
        for row in cassandra_session.execute("SELECT login_id, user_name, last_login FROM site.users")
    } == {login_id: (users[login_id], moment) for login_id, moment in last.items()}
    named = Counter(json.loads(value)["user_name"] for value in followed.topics["logins-named"])
    assert named == Counter(users[login["login_id"]] for login in known)


def test_the_batch_view_and_the_batches_since_give_the_same_totals_as_the_lake(follow):
    followed = follow("examples/lambda/README.md")

    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for trade in map(json.loads, followed.topics["trades"]):
        sums[trade["BrokerCode"]][trade["Type"]] += trade["Amount"]
    wanted = "".join(f"{name} bought {sums[name]['BUY']} sold {sums[name]['SELL']}\n" for name in sorted(sums))
    printed = {name: followed.printed[f"python examples/lambda/totals.py {name}"] for name in ("nightly", "now", "all")}
    assert printed["now"] == printed["all"] == wanted
    assert printed["nightly"] != wanted, "the trades since are not in it"
