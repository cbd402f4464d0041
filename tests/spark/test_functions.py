"""The list of functions that `check` knows is that of the installed Spark."""

from __future__ import annotations

from tools.list_functions import FILE, list_functions


def test_the_list_of_functions_is_sparks(spark):
    assert FILE.read_text(encoding="utf-8") == list_functions(spark), "run `python -m tools.list_functions`"
