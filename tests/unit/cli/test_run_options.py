"""Errors in the options of `penstock run`."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.cli._stderr import NonBlockingStderr
from penstock.cli.run import Endpoints
from penstock.errors import CallError
from penstock.load import load
from penstock.storage.layout import Storage
from penstock.supervise.supervisor import State


def test_a_busy_page_port_names_the_option_of_run(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: ticks, memory: {}}}\n")
    pipeline = load(file)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with (
            pytest.raises(CallError) as error,
            Endpoints(None, port).open(State("p", ("out",)), pipeline, Storage.of(pipeline), NonBlockingStderr()),
        ):
            pass

    says = f"port {port} of 127.0.0.1 cannot be used: Address already in use"
    assert str(error.value) == f"{says}; give another --page-port, or 0 for any free one"
