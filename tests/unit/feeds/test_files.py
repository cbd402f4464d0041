from __future__ import annotations

from itertools import islice

import pytest
from tests.unit.feeds.clocks import FakeClock

from penstock.errors import CallError, PenstockError
from penstock.feeds import FEEDS, Record
from penstock.feeds.targets import FilesTarget


def test_a_file_is_hidden_until_it_is_complete(tmp_path):
    target = FilesTarget(tmp_path / "in", "trades", max_records=3, now=FakeClock().now)
    made = list(islice(FEEDS["trades"](7), 5))
    target.open()

    target.send(made)

    seen = [path.name.startswith(".") for path in sorted((tmp_path / "in").iterdir())]
    assert seen == [True, False]
    assert target.acked == 3

    target.flush()
    target.close()

    lines = [line for path in sorted((tmp_path / "in").iterdir()) for line in path.read_bytes().splitlines()]
    assert lines == [record.value for record in made]
    assert [path.suffix for path in (tmp_path / "in").iterdir()] == [".json", ".json"]
    assert target.acked == 5


def test_a_file_does_not_wait_longer_than_a_second(tmp_path):
    clock = FakeClock()
    target = FilesTarget(tmp_path, "trades", now=clock.now)
    target.open()

    target.send([Record(None, b"{}")])
    assert target.acked == 0
    clock.seconds += 1
    target.send([])

    assert target.acked == 1


def test_a_run_that_fails_leaves_no_half_file(tmp_path):
    target = FilesTarget(tmp_path, "trades")
    target.open()
    target.send([Record(None, b"{}")])

    target.close()

    assert list(tmp_path.iterdir()) == []


def test_a_second_run_does_not_replace_the_files_of_the_first(tmp_path):
    for _ in range(2):
        target = FilesTarget(tmp_path, "trades")
        target.open()
        target.send([Record(None, b"{}")])
        target.flush()

    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("value", [None, b"two\nlines"])
def test_a_record_that_does_not_fit_on_a_line_is_refused(tmp_path, value):
    target = FilesTarget(tmp_path, "trades")
    target.open()

    with pytest.raises(PenstockError, match="a file has one record per line; send it to kafka instead"):
        target.send([Record(None, value)])


def test_a_folder_that_cannot_be_created_is_refused(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(CallError, match="file/in cannot be written: not a directory; give another"):
        FilesTarget(tmp_path / "file" / "in", "trades").open()
