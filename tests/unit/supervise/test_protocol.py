"""The channel between supervisor and driver, over a real pair of sockets."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.supervise.protocol import Channel, RunOptions

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two connected sockets, closed at the end."""
    ends = socket.socketpair()
    for end in ends:
        end.settimeout(10)
    yield ends
    for end in ends:
        end.close()


def test_messages_travel_in_both_directions(pair: Pair):
    supervisor, driver = map(Channel, pair)

    supervisor.send({"order": "drain", "why": "SIGTERM"})
    driver.send({"what": "status", "text": "ü"})

    assert next(driver.messages()) == ({"order": "drain", "why": "SIGTERM"}, [])
    assert next(supervisor.messages()) == ({"what": "status", "text": "ü"}, [])


def test_several_messages_of_one_packet_are_read_one_by_one(pair: Pair):
    pair[0].sendall(b'{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    pair[0].close()

    assert [message for message, _ in Channel(pair[1]).messages()] == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_a_message_that_comes_in_pieces_is_read_whole(pair: Pair):
    found = []
    reader = threading.Thread(target=lambda: found.extend(Channel(pair[1]).messages()))
    reader.start()

    for piece in (b'{"text": "\xc3', b"\xbc", b' and more"', b'}\n{"n"', b": 2}\n"):
        pair[0].sendall(piece)
    pair[0].shutdown(socket.SHUT_WR)
    reader.join(10)

    assert found == [({"text": "ü and more"}, []), ({"n": 2}, [])]


def test_a_message_larger_than_the_sockets_buffer_arrives_whole(pair: Pair):
    message = {"text": "x" * 2_000_000}
    writer = threading.Thread(target=Channel(pair[0]).send, args=(message,))
    writer.start()

    found, _ = next(Channel(pair[1]).messages())
    writer.join(10)

    assert found == message


def test_an_open_file_travels_with_its_message_and_no_other(pair: Pair, tmp_path: Path):
    ours = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    channel = Channel(pair[0])

    channel.send({"order": "start"}, ours)
    channel.send({"order": "drain"})
    os.write(ours, b"held")
    os.close(ours)
    channel.close()

    (start, files), (drain, none) = Channel(pair[1]).messages()
    assert (start, drain, none) == ({"order": "start"}, {"order": "drain"}, [])
    (theirs,) = files
    assert os.pread(theirs, 10, 0) == b"held"
    os.close(theirs)


def test_values_that_json_does_not_know_are_sent_as_text(pair: Pair):
    Channel(pair[0]).send({"path": Path("/a")})

    assert json.loads(pair[1].recv(100)) == {"path": "/a"}


def test_sending_to_a_closed_end_is_false_and_no_error(pair: Pair):
    channel = Channel(pair[0])
    pair[1].close()

    assert not channel.send({"order": "drain"})


def test_a_closed_channel_sends_nothing_and_has_no_messages(pair: Pair):
    channel = Channel(pair[0])
    channel.close()
    channel.close()

    assert not channel.send({"order": "drain"})
    assert list(channel.messages()) == []
    assert list(Channel(pair[1]).messages()) == []


def test_run_options_survive_the_command_line():
    options = RunOptions("/a/ü.yaml", once=True, master="local[2]", wait_seconds=1.5)

    assert RunOptions.parse(options.text()) == options
