"""Generators of synthetic records: one function per kind, with skewed keys and their own event time."""

from __future__ import annotations

import json
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from random import Random

from penstock.feeds.records import Record
from penstock.options import parse_time

_TWO_DIGITS = tuple(f"{number:02}" for number in range(60))


@dataclass(frozen=True)
class Shape:
    """Parameters of a generator besides its seed; None means the default of the kind."""

    keys: int | None = None
    """How many brokers, sensors, users ... there are."""
    skew: float = 0.0
    """Zipf's exponent: 0 gives all keys the same share, 1 gives the first of them by far the most."""
    start: float | None = None
    step_seconds: float | None = None
    """Mean event time between two records."""


class SeededRandom(Random):
    """Random numbers for a seed and a purpose, so that another purpose does not change what the others draw."""

    def __init__(self, seed: int, purpose: str) -> None:
        # Random hashes a string seed with SHA-512, so the numbers are the same on every machine.
        super().__init__(f"{purpose} {seed}")


def event_times(chance: Random, start: str, step_seconds: float, shape: Shape) -> Iterator[float]:
    """Endless ascending times, in seconds since 1970; steps vary between zero and twice the mean."""
    moment = parse_time(start).timestamp() if shape.start is None else shape.start
    twice = 2 * (step_seconds if shape.step_seconds is None else shape.step_seconds)
    random = chance.random
    while True:
        moment += random() * twice
        yield moment


def make_chooser(chance: Random, count: int, skew: float) -> Callable[[], int]:
    """A function that draws a number below `count`; the larger the skew, the more often a small one."""
    random = chance.random
    if not skew:
        return lambda: int(random() * count)
    shares = list(accumulate(1 / number**skew for number in range(1, count + 1)))
    total = shares[-1]
    return lambda: bisect(shares, random() * total, 0, count - 1)


def make_time_formatter() -> Callable[[float], str]:
    """A function that formats seconds since 1970 as '2019-02-05 10:00:00' in UTC; fast because it caches the minute."""
    last, text = -1, ""

    def stamp(moment: float) -> str:
        nonlocal last, text
        minute, second = divmod(int(moment), 60)
        if minute != last:
            last, text = minute, time.strftime("%Y-%m-%d %H:%M:", time.gmtime(minute * 60))
        return text + _TWO_DIGITS[second]

    return stamp


BROKERS = ("ABX", "BNP", "CDL", "DKR", "EVN", "FXT", "GLM", "HSN")


def trades(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Trades in event order: ten per minute of event time, from 10:00 on. Keys are brokers."""
    chance, stamp = SeededRandom(seed, "trades"), make_time_formatter()
    random, count = chance.random, shape.keys or len(BROKERS)
    brokers = [BROKERS[number] if number < len(BROKERS) else f"B{number + 1:05}" for number in range(count)]
    keys, broker = [name.encode() for name in brokers], make_chooser(chance, count, shape.skew)
    for moment in event_times(chance, "2019-02-05 10:00:00", 6, shape):
        at = broker()
        side = "BUY" if random() < 0.55 else "SELL"
        text = (
            f'{{"CreatedTime": "{stamp(moment)}", "Type": "{side}", '
            f'"Amount": {(int(random() * 40) + 1) * 25}, "BrokerCode": "{brokers[at]}"}}'
        )
        yield Record(keys[at], text.encode(), moment)


SENSORS = 10


def sensors(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Readings: each sensor drifts slowly around its usual temperature. Keys are sensors."""
    chance, stamp = SeededRandom(seed, "sensors"), make_time_formatter()
    random, count = chance.random, shape.keys or SENSORS
    names = [f"S{number + 1}" for number in range(count)]
    keys, sensor = [name.encode() for name in names], make_chooser(chance, count, shape.skew)
    usual = [15 + 20 * random() for _ in names]
    readings = list(usual)
    for moment in event_times(chance, "2019-02-05 10:00:00", 5, shape):
        at = sensor()
        readings[at] += 0.1 * (usual[at] - readings[at]) + random() - 0.5
        text = f'{{"CreatedTime": "{stamp(moment)}", "SensorID": "{names[at]}", "Reading": {readings[at]:.2f}}}'
        yield Record(keys[at], text.encode(), moment)


#: The four users in the table of examples/logins, and two unknown ones.
LOGIN_USERS = ("100001", "100009", "100087", "100109", "200001", "200002")


def logins(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Logins, some of users that are not in the table. Keys are users."""
    chance, stamp = SeededRandom(seed, "logins"), make_time_formatter()
    count = shape.keys or len(LOGIN_USERS)
    users = [LOGIN_USERS[number] if number < len(LOGIN_USERS) else f"{300_000 + number}" for number in range(count)]
    keys, user = [name.encode() for name in users], make_chooser(chance, count, shape.skew)
    for moment in event_times(chance, "2020-09-09 10:18:00", 4, shape):
        at = user()
        text = f'{{"login_id": "{users[at]}", "created_time": "{stamp(moment)}"}}'
        yield Record(keys[at], text.encode(), moment)


SITES = ("facebook.com", "youtube.com", "linkedin.com", "wikipedia.org", "example.com")


def clickstream(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Many views, some clicks and few purchases. Keys are sites."""
    chance, stamp = SeededRandom(seed, "clickstream"), make_time_formatter()
    random, count = chance.random, shape.keys or len(SITES)
    sites = [SITES[number] if number < len(SITES) else f"site{number + 1}.example" for number in range(count)]
    keys, site = [name.encode() for name in sites], make_chooser(chance, count, shape.skew)
    for moment in event_times(chance, "2021-03-01 09:00:00", 1, shape):
        at, luck = site(), random()
        action = "viewed" if luck < 0.7 else "clicked" if luck < 0.96 else "bought"
        text = f'{{"site": "{sites[at]}", "action": "{action}", "time": "{stamp(moment)}"}}'
        yield Record(keys[at], text.encode(), moment)


CAMPAIGNERS = ("ABC Ltd", "XYZ Ltd", "Harbour Tea", "Nord Bikes", "Lumen & Co")
IMPRESSIONS, CLICKS = 0, 1
_CLICK_SHARE = 0.2
_MEAN_CLICK_SECONDS = 240.0


def ads(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Impressions and clicks: one shown in five is clicked, most within minutes, some after a quarter of an hour.

    `shape.keys` counts the campaigners; the key of a Kafka record is the shown's id.
    """
    chance, stamp = SeededRandom(seed, "ads"), make_time_formatter()
    random, count = chance.random, shape.keys or len(CAMPAIGNERS)
    names = [CAMPAIGNERS[n] if n < len(CAMPAIGNERS) else f"Campaigner {n + 1}" for n in range(count)]
    campaigner = make_chooser(chance, count, shape.skew)
    pending_clicks: list[tuple[float, str]] = []
    for number, moment in enumerate(event_times(chance, "2020-09-09 10:00:00", 3, shape), 1):
        while pending_clicks and pending_clicks[0][0] <= moment:
            clicked, shown = heappop(pending_clicks)
            text = f'{{"ImpressionID": "{shown}", "CreatedTime": "{stamp(clicked)}"}}'
            yield Record(shown.encode(), text.encode(), clicked, CLICKS)
        shown = f"{100_000_000 + number}"
        text = f'{{"ImpressionID": "{shown}", "CreatedTime": "{stamp(moment)}", "Campaigner": "{names[campaigner()]}"}}'
        yield Record(shown.encode(), text.encode(), moment, IMPRESSIONS)
        if random() < _CLICK_SHARE:
            heappush(pending_clicks, (moment + chance.expovariate(1 / _MEAN_CLICK_SECONDS), shown))


def impressions(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Only the impressions of `ads`."""
    return (record for record in ads(seed, shape) if record.stream == IMPRESSIONS)


def clicks(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Only the clicks of `ads`, on the impressions of the same seed and shape."""
    return (record._replace(stream=0) for record in ads(seed, shape) if record.stream == CLICKS)


STORES = 12
ITEMS = (
    ("258", "Desk lamp", 799.0),
    ("283", "Floor lamp", 1048.0),
    ("310", "Bookshelf", 2349.5),
    ("358", "Writing desk", 2910.0),
    ("448", "Curtain", 667.5),
    ("488", "Rug", 1424.0),
    ("503", "Side table", 1575.0),
)
PLACES = (("Leeds", "North"), ("Porto", "North"), ("Lyon", "East"), ("Gdansk", "West"), ("Bari", "South"))
_BASKETS = 2048


def invoices(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Numbered invoices, with recurring customers and baskets. Keys are stores."""
    chance = SeededRandom(seed, "invoices")
    random, count = chance.random, shape.keys or STORES
    stores = [f"STR{1000 + number * 37 % 9000 if number < 9000 else number + 10_000}" for number in range(count)]
    keys, store = [name.encode() for name in stores], make_chooser(chance, count, shape.skew)
    # Baskets are encoded once and reused: encoding one per invoice would take most of the time.
    baskets = [_basket(chance) for _ in range(_BASKETS)]
    for number, moment in enumerate(event_times(chance, "2020-07-25 14:55:00", 1, shape), 1):
        at = store()
        text = (
            f'{{"InvoiceNumber": "{51_400_000 + number}", "CreatedTime": {int(moment * 1000)}, '
            f'"StoreID": "{stores[at]}", "PosID": "POS{int(random() * 900) + 100}", '
            f"{baskets[int(random() * _BASKETS)]}}}"
        )
        yield Record(keys[at], text.encode(), moment)


def _basket(chance: Random) -> str:
    home = chance.random() < 0.6
    lines = [_line(chance, item) for item in chance.sample(ITEMS, chance.randint(1, 4))]
    basket: dict[str, object] = {
        "CustomerType": chance.choice(("PRIME", "NONPRIME")),
        "PaymentMethod": chance.choice(("CARD", "CASH")),
        "DeliveryType": "HOME-DELIVERY" if home else "TAKEAWAY",
        "InvoiceLineItems": lines,
    }
    if home:
        city, state = chance.choice(PLACES)
        basket["DeliveryAddress"] = {
            "AddressLine": f"{chance.randint(1, 180)} High Street",
            "City": city,
            "State": state,
            "PinCode": f"{chance.randint(100_000, 999_999)}",
            "ContactNumber": f"0{chance.randint(100_000_000, 999_999_999)}",
        }
    return json.dumps(basket)[1:-1]


def _line(chance: Random, item: tuple[str, str, float]) -> dict[str, object]:
    code, description, price = item
    count = chance.randint(1, 3)
    return {
        "ItemCode": code,
        "ItemDescription": description,
        "ItemPrice": price,
        "ItemQty": count,
        "TotalValue": price * count,
    }


USERS = 20
_TAGS = ("#spark", "#kafka", "#python", "#streaming", "#data", "#coffee")
_WHO = ("the stream", "my pipeline", "a broker", "the new release", "our team", "this notebook", "every window")
_DOES = ("is quick", "waits for late rows", "counts words", "never sleeps", "reads on", "needs a watermark", "is green")
_WHEN = ("today", "again", "at last", "on Monday", "before lunch", "in production", "after the restart")


def tweets(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Tweets with increasing ids. Keys are users."""
    chance, stamp = SeededRandom(seed, "tweets"), make_time_formatter()
    random, count = chance.random, shape.keys or USERS
    users = [f"user{number + 1}" for number in range(count)]
    keys, user, tag = (
        [name.encode() for name in users],
        make_chooser(chance, count, shape.skew),
        make_chooser(chance, 6, 1.0),
    )
    sentences = _sentences()
    for number, moment in enumerate(event_times(chance, "2018-05-01 12:00:00", 2, shape), 1):
        at, luck = user(), random()
        text = sentences[int(random() * len(sentences))]
        if luck < 0.8:
            text += f" {_TAGS[tag()]}"
        if luck < 0.3:
            text += f" {_TAGS[tag()]}"
        tweet = (
            f'{{"id": "{990_000_000_000 + number}", "created_at": "{stamp(moment)}", '
            f'"user": "{users[at]}", "text": "{text}"}}'
        )
        yield Record(keys[at], tweet.encode(), moment)


def lines(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Lines of plain text. Keys are the numbers of their speakers."""
    chance = SeededRandom(seed, "lines")
    random, count = chance.random, shape.keys or USERS
    speaker, sentences = make_chooser(chance, count, shape.skew), [text.encode() for text in _sentences()]
    for moment in event_times(chance, "2018-05-01 12:00:00", 2, shape):
        yield Record(b"%d" % (speaker() + 1), sentences[int(random() * len(sentences))], moment)


def _sentences() -> list[str]:
    return [f"{who} {does} {when}" for who in _WHO for does in _DOES for when in _WHEN]


VISITORS = 50
PAGES = ("/", "/sale", "/garden", "/kitchen", "/audio", "/bags", "/basket")


def weblogs(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Visits: a visitor's age is constant, and the counts of visits and purchases grow. Keys are visitors."""
    chance, stamp = SeededRandom(seed, "weblogs"), make_time_formatter()
    random, count = chance.random, shape.keys or VISITORS
    users = [f"user{number + 1}" for number in range(count)]
    keys, user = [name.encode() for name in users], make_chooser(chance, count, shape.skew)
    ages = [18 + int(random() * 52) for _ in users]
    visits, bought = [int(random() * 30) for _ in users], [int(random() * 8) for _ in users]
    for moment in event_times(chance, "2024-05-01 12:00:00", 2, shape):
        at = user()
        # The counts wrap around, like counts of the current month.
        visits[at] = visits[at] % 40 + 1
        bought[at] = (bought[at] + (random() < 0.1)) % 12
        text = (
            f'{{"UserID": "{users[at]}", "Time": "{stamp(moment)}", "Page": "{PAGES[int(random() * len(PAGES))]}", '
            f'"Age": {ages[at]}, "Visits": {visits[at]}, "Bought": {bought[at]}}}'
        )
        yield Record(keys[at], text.encode(), moment)
