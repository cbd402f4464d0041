"""Which other users can change a file."""

from __future__ import annotations

import os

import pytest

from penstock.storage.files import other_writers

US, OTHER = 54_321, 54_322


def found(mode: int, user: int = US, group: int = OTHER) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, user, group, 0, 0, 0, 0))


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o500])
def test_what_only_its_owner_can_write_is_ours(mode: int):
    assert other_writers(found(mode), US) == ""
    assert other_writers(found(mode, user=0), US) == ""


@pytest.mark.parametrize(
    ("what", "who"),
    [
        (found(0o600, user=OTHER), f"its owner is user {OTHER}"),
        (found(0o646), "everyone can (mode 646)"),
        (found(0o1777, user=0), "everyone can (mode 1777)"),
        (found(0o664), "its group can (mode 664)"),
        (found(0o664, user=0, group=0), "its group can (mode 664)"),
    ],
)
def test_others_who_can_write_are_named(what: os.stat_result, who: str):
    assert other_writers(what, US) == who


def test_the_private_group_of_a_user_does_not_count():
    assert other_writers(found(0o664, group=US), US) == ""
    assert other_writers(found(0o2775, user=0, group=US), US) == ""
    assert other_writers(found(0o664, user=0, group=0), 0) == "its group can (mode 664)"
