"""Words for messages."""

from __future__ import annotations

from penstock.text import did_you_mean


def test_the_nearest_word_is_offered_or_all_of_them_if_they_are_few():
    assert did_you_mean("kafak", ["files", "kafka"]) == "did you mean 'kafka'?"
    assert did_you_mean("zzz", ["files", "kafka"]) == "use files or kafka"


def test_a_long_list_of_words_is_cut():
    found = did_you_mean("zzz", [f"a{number:03}" for number in range(300)])

    assert found.endswith("a048, a049 or one of 250 others")
