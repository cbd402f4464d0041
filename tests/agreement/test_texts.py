"""SQL with one mistake is refused without Spark, SQL that only Spark has is accepted, and Spark says the same."""

from __future__ import annotations

import pytest
from tests.agreement.oracle import verdict
from tests.agreement.texts import pipeline_of, read_texts

from penstock.checks import check
from penstock.model import errors

WRONG, RIGHT = read_texts("wrong.txt"), read_texts("right.txt")


def test_there_are_a_hundred_of_each():
    assert len(set(WRONG)) >= 100
    assert len(set(RIGHT)) >= 100


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_found_at_its_step(text: str):
    found = errors(check(pipeline_of(text)))

    assert found
    assert all("step" in finding.says for finding in found)


@pytest.mark.parametrize("text", RIGHT)
def test_what_spark_accepts_has_no_error(text: str):
    assert errors(check(pipeline_of(text))) == []


def test_spark_refuses_the_wrong_and_accepts_the_right(spark, tmp_path):
    verdicts = {}
    for place, text in enumerate([*WRONG, *RIGHT]):
        folder = tmp_path / str(place)
        folder.mkdir()
        verdicts[text] = verdict(spark, pipeline_of(text), folder)

    assert [text for text in WRONG if not verdicts[text]] == []
    assert {text: verdicts[text] for text in RIGHT if verdicts[text]} == {}
