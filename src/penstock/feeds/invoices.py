"""Invoices of shops, with an address and line items inside."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

from penstock.feeds.making import Chance, Shape, chooser, moments
from penstock.feeds.record import Record

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
_SOME = 2048


def invoices(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Invoices without end, numbered; keys are stores, and customers and baskets come back."""
    chance = Chance(seed, "invoices")
    random, count = chance.random, shape.keys or STORES
    stores = [f"STR{1000 + number * 37 % 9000 if number < 9000 else number + 10_000}" for number in range(count)]
    keys, store = [name.encode() for name in stores], chooser(chance, count, shape.skew)
    # A few thousand baskets, written once: an invoice is large, and writing each anew would be most of the work.
    baskets = [_basket(chance) for _ in range(_SOME)]
    for number, moment in enumerate(moments(chance, "2020-07-25 14:55:00", 1, shape), 1):
        at = store()
        text = (
            f'{{"InvoiceNumber": "{51_400_000 + number}", "CreatedTime": {int(moment * 1000)}, '
            f'"StoreID": "{stores[at]}", "PosID": "POS{int(random() * 900) + 100}", {baskets[int(random() * _SOME)]}}}'
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
