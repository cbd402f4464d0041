from __future__ import annotations

from penstock.testing import compare


def lines(wanted, found, **how) -> list[str]:
    return [str(line) for line in compare(wanted, found, **how).lines]


def test_rows_in_another_order_are_the_same():
    assert not compare([{"a": 1}, {"a": 2}], [{"a": 2, "b": 0}, {"a": 1, "b": 0}])


def test_a_loose_row_gives_way_to_a_strict_one():
    assert not compare([{"a": 1}, {"a": 1, "b": 2}], [{"a": 1, "b": 2}, {"a": 1, "b": 3}])


def test_a_row_that_is_there_twice_is_expected_twice():
    assert lines([{"a": 1}], [{"a": 1}, {"a": 1}]) == ["unexpected {a: 1}"]


def test_the_closest_rows_are_told_apart_cell_by_cell():
    wanted = [{"k": "x", "n": 1, "m": 1}, {"k": "y", "n": 2, "m": 2}, {"k": "z", "n": 9, "m": 9}]
    found = [{"k": "y", "n": 3, "m": 2}, {"k": "x", "n": 1, "m": 5}]

    assert lines(wanted, found) == [
        "different  {k: x, n: 1, m: expected 1, found 5}",
        "different  {k: y, n: expected 2, found 3, m: 2}",
        "missing    {k: z, n: 9, m: 9}",
    ]


def test_rows_with_nothing_in_common_are_no_pair():
    assert lines([{"a": 1}], [{"a": 2}]) == ["missing    {a: 1}", "unexpected {a: 2}"]


def test_the_order_is_shown_when_it_alone_is_wrong():
    assert lines([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}], ordered=True) == [
        "order      found as row 0: {a: 2}",
        "order      found as row 1: {a: 1}",
    ]


def test_text_that_looks_like_a_number_is_told_from_one():
    assert lines([{"k": 1, "a": "5"}], [{"k": 1, "a": 5}]) == ["different  {k: 1, a: expected '5', found 5}"]


def test_a_long_cell_is_cut_and_stays_in_its_line():
    (line,) = lines([], [{"a": "x\n\x1b[31m" + "y" * 500}])

    assert line == "unexpected {a: x  [31m" + "y" * 193 + "...}"


def test_a_thousand_rows_are_compared_in_no_time():
    rows = [{"a": number, "b": number % 7} for number in range(1000)]

    assert not compare(rows, list(reversed(rows)))
