"""Findings about changed files are where the change is; `python -m tests.agreement.mutations` changes more."""

from __future__ import annotations

from tests.agreement.mutations import outcomes, summarize


def test_three_hundred_changed_files_have_findings_in_the_right_places():
    done = list(outcomes(300, "11"))

    decidable = [each for each in done if each.is_decidable]
    wrong = [each for each in done if each.traceback or each.outside or not each.is_at_place]
    assert not wrong, "\n".join(summarize(done))
    assert len(decidable) > 50, "too few of them show whether a place is right"
