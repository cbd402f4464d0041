"""What `check` knows of functions and operators is what the installed Spark accepts."""

from __future__ import annotations

from tools.list_functions import FILE, OPERATORS, Spark, describe, operator_pairs, registered

STEP = 50


def test_functions_are_sparks(spark):
    lines = [line.split(" ") for line in FILE.read_text(encoding="utf-8").splitlines()]
    functions = {name: rest for name, *rest in lines if rest[0] != "pairs"}
    groups = {name: group for name, group, makes_table in sorted(registered(spark), reverse=True)}
    probe = Spark(spark)
    sample = [name for name in sorted(functions) if functions[name][1] != "*"][::STEP]

    assert {name: rest[0] for name, rest in functions.items()} == groups, "run `python -m tools.list_functions`"
    assert [(name, *functions[name][1:]) for name in sample] == [(name, *describe(probe, name)) for name in sample]


def test_operators_accept_what_spark_accepts(spark):
    lines = [line.split(" ") for line in FILE.read_text(encoding="utf-8").splitlines()]
    pairs = {name: rest[-1] for name, *rest in lines if rest[0] == "pairs"}

    assert {each: pairs[each] for each in OPERATORS} == {each: operator_pairs(Spark(spark), each) for each in OPERATORS}
