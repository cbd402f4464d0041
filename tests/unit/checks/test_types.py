"""Columns, types and groups that Spark would refuse, with what to do."""

from __future__ import annotations

import pytest
from tests.agreement.texts import pipeline_of

from penstock.checks import check
from penstock.model import errors


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "SELECT paid + 1 AS x FROM orders",
            "'paid' is boolean and '1' is int; Spark has no + for them; cast one of them",
        ),
        (
            "SELECT at + 5 AS x FROM orders",
            "'at' is timestamp and '5' is int; Spark has no + for them; add an interval: at + INTERVAL 5 MINUTES",
        ),
        (
            "SELECT id FROM orders WHERE quantity AND paid",
            "'quantity' is int and 'paid' is boolean; Spark has no AND for them; both sides are conditions",
        ),
        (
            "SELECT id FROM orders WHERE amount",
            "'amount' is decimal(10,2), and a condition is a boolean; compare it with something",
        ),
        (
            "SELECT CAST(tags AS int) AS x FROM orders",
            "'tags' is array<string> and cannot be cast to int; cast it to another type",
        ),
        (
            "SELECT map_keys(tags) AS x FROM orders",
            "map_keys() does not take array<string>, the type of 'tags'; it takes map",
        ),
        (
            "SELECT upper(customer, id) AS x FROM orders",
            "upper() takes 1 argument, not 2; correct the arguments of upper",
        ),
        ("SELECT nvl2(customer) AS x FROM orders", "nvl2() takes 3 arguments, not 1; correct the arguments of nvl2"),
        ("SELECT address.town AS x FROM orders", "'address' has no field 'town'; use city or zip"),
        (
            "SELECT customer.name AS x FROM orders",
            "'customer' is string and has no field 'name'; only structs have fields",
        ),
        (
            "SELECT quantity[0] AS x FROM orders",
            "'quantity' is int and has no elements; only arrays and maps have elements",
        ),
        (
            "SELECT customer, amount, count(*) AS n FROM orders GROUP BY customer",
            "'amount' is neither in GROUP BY nor in an aggregate; "
            "group by it, or take any of its values: any_value(amount)",
        ),
        (
            "SELECT customer, count(*) AS n FROM orders WHERE count(*) > 1 GROUP BY customer",
            "'COUNT(*)' is an aggregate, which WHERE cannot have; use HAVING, after GROUP BY",
        ),
        (
            "SELECT day FROM orders o JOIN rates r ON o.day = r.day",
            "'day' is ambiguous: o and r have it; write o.day",
        ),
        (
            "SELECT id, at FROM orders UNION ALL SELECT id, quantity FROM orders",
            "UNION has 'at' of type timestamp before it and int after it; cast one of them",
        ),
        (
            "SELECT id, customer FROM orders UNION ALL SELECT id FROM orders",
            "UNION has 2 columns before it and 1 after it; select the same number of columns",
        ),
        (
            "SELECT o.id FROM orders o JOIN rates r USING (dya)",
            "USING names 'dya', which 'o' does not have; did you mean 'day'?",
        ),
    ],
)
def test_a_mistake_is_named_with_its_way_out(sql: str, says: str):
    (found,) = errors(check(pipeline_of(sql)))

    assert f"{found.says}; {found.fix}" == f"step 'step': {says}"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT transform(tags, quantity -> upper(quantity)) AS x FROM orders",
        "SELECT CAST(at AS string) AS at, count(*) AS n FROM orders GROUP BY at HAVING at > 'a'",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY quantity) AS x FROM orders",
        "SELECT o.id FROM orders o JOIN (SELECT * FROM rates) USING (day) WHERE day > DATE '2020-01-01'",
        "SELECT window.start, max(amount) AS x FROM orders GROUP BY window(orders.at, '1 hour'), orders.customer",
        "SELECT my_function(quantity, tags) AS x, customer FROM orders GROUP BY customer",
    ],
)
def test_names_that_hide_a_column_are_understood(sql: str):
    assert [each.rule for each in errors(check(pipeline_of(sql))) if each.rule != "functions-exist"] == []


@pytest.mark.parametrize("around", ["CASE {} WHEN 1 THEN 2 WHEN 2 THEN 3 WHEN 3 THEN 4 END", "({} BETWEEN 1 AND 2)"])
def test_nested_expressions_are_asked_about_once(around: str):
    # Three times for each level would be 3^25 times.
    inner = "quantity"
    for _ in range(25):
        inner = around.format(inner)

    assert {each.rule for each in check(pipeline_of(f"SELECT {inner} AS x FROM orders"))} <= {"types-fit", "state-ends"}
