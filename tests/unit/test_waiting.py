from __future__ import annotations

from penstock.waiting import wait_until


def test_a_condition_that_holds_is_not_waited_for():
    assert wait_until(lambda: True, 0.0)


def test_a_condition_is_asked_again_until_it_holds():
    answers = iter([False, False, True])

    assert wait_until(lambda: next(answers), 60, poll_seconds=0.001)


def test_a_condition_that_never_holds_is_given_up():
    assert not wait_until(lambda: False, 0.01, poll_seconds=0.001)
