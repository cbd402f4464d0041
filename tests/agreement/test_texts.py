"""SQL with one mistake is refused without Spark, SQL that only Spark has is accepted, and Spark says the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.agreement.texts import pipeline_of, read_texts

from penstock.checks import check
from penstock.engine.deep_check import check_in
from penstock.model import Pipeline, errors

WRONG, RIGHT = read_texts("wrong.txt"), read_texts("right.txt")
STREAMING = [line.split(" ", 1) for line in read_texts("streaming.txt")]


def test_there_are_a_hundred_of_each():
    assert len(set(WRONG)) >= 100
    assert len(set(RIGHT)) >= 100


@pytest.mark.parametrize("text", WRONG)
def test_a_mistake_is_found_at_its_line(text: str):
    found = errors(check(pipeline_of(text)))

    assert found
    assert {finding.at.line for finding in found} == {17}


@pytest.mark.parametrize("text", RIGHT)
def test_what_spark_accepts_has_no_error(text: str):
    assert errors(check(pipeline_of(text))) == []


def test_spark_refuses_the_wrong_by_the_same_rules_and_accepts_the_right(spark, tmp_path):
    wrong = {text: pipeline_of(text) for text in WRONG}
    streaming = {text: pipeline_of(text, mode) for mode, text in STREAMING}
    right = {text: pipeline_of(text) for text in RIGHT}

    rules = {
        text: (_rules(check(pipeline)), _rules(_ask_spark(spark, pipeline, tmp_path)))
        for text, pipeline in {**wrong, **streaming}.items()
    }
    refused = [text for text, pipeline in right.items() if errors(_ask_spark(spark, pipeline, tmp_path))]

    assert {text: found for text, found in rules.items() if not found[0] & found[1]} == {}
    assert refused == []


def _ask_spark(spark, pipeline: Pipeline, folder: Path):
    empty = folder / str(len(list(folder.iterdir())))
    empty.mkdir()
    # What reads the other sources is the same in all of them.
    alone = replace(pipeline, steps=pipeline.steps[:1], sinks=pipeline.sinks[:1])
    return check_in(spark, alone, empty)


def _rules(findings) -> set[str]:
    return {finding.rule for finding in errors(findings)}
