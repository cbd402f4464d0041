"""The broker service, as far as it can be tested without starting one."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.errors import CallError, ServiceError
from penstock.services import SERVICES, KafkaBroker, Status, dev_folder
from penstock.services.kafka import DEFAULT_PORT, free_port, is_ready, port_conflict


@pytest.fixture
def taken():
    """A port that another program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_broker_that_was_never_up_is_stopped_and_down_makes_no_folder(tmp_path):
    broker = KafkaBroker(tmp_path / "kafka")

    assert broker.status() == broker.stop() == Status("kafka", "stopped")
    assert not broker.folder.exists()


def test_a_port_the_user_chose_that_is_taken_is_an_error_that_says_what_to_do(tmp_path, taken):
    broker = KafkaBroker(tmp_path, [Path("kafka.jar")], taken)

    with pytest.raises(ServiceError) as caught:
        broker.start(lambda _: None)

    says = f"kafka cannot use port {taken}: another program listens on it; choose another one with --port, or omit it"
    assert str(caught.value) == says


def test_a_remembered_port_that_is_taken_is_not_insisted_on(tmp_path, taken):
    (tmp_path / "port").write_text(f"{taken}\n")

    port = KafkaBroker(tmp_path)._choose_port()

    assert port != taken
    assert port_conflict(port) is None


def test_a_remembered_port_is_preferred_to_the_usual_one(tmp_path):
    port = free_port()
    (tmp_path / "port").write_text(f"{port}\n")

    assert KafkaBroker(tmp_path)._choose_port() == port != DEFAULT_PORT


def test_a_broker_without_jars_names_the_command_that_fetches_them(tmp_path):
    with pytest.raises(CallError, match="run `penstock jars fetch broker`"):
        KafkaBroker(tmp_path, port=free_port()).start(lambda _: None)


def test_a_storage_tool_that_fails_is_quoted(tmp_path):
    broker = KafkaBroker(tmp_path, [tmp_path / "no.jar"], free_port())

    with pytest.raises(
        ServiceError, match=r"(?s)cannot be formatted; the storage tool printed\n.*kafka\.tools\.StorageTool"
    ):
        broker.start(lambda _: None)

    assert broker.status().state == "stopped"


def test_nothing_answers_on_a_port_that_is_closed():
    assert not is_ready(f"127.0.0.1:{free_port()}", "cluster")


def test_a_service_says_which_jars_it_needs_and_where_its_data_goes(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_DEV", raising=False)
    wanted = {"kafka": "broker", "cassandra": "cassandra-server"}
    assert {name: service.jars for name, service in SERVICES.items()} == wanted
    assert dev_folder() == tmp_path / ".penstock" / "dev"

    monkeypatch.setenv("PENSTOCK_DEV", "/elsewhere")
    assert dev_folder() == Path("/elsewhere")
