"""A real PostgreSQL on loopback for the tests, in a folder of its own."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg

from penstock.services.kafka import free_port

PASSWORD = "not-to-be-seen"
_START_SECONDS = 60


@dataclass(frozen=True)
class Postgres:
    """A running server, asked through psycopg, which is neither Spark nor JDBC."""

    port: int

    @property
    def url(self) -> str:
        """As JDBC spells it."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres"

    def connect(self) -> psycopg.Connection[Any]:
        """A connection of psycopg's."""
        return psycopg.connect(host="127.0.0.1", port=self.port, user="tests", password=PASSWORD, dbname="postgres")

    def ask(self, text: str) -> list[tuple]:
        """The rows of a query, or none of a statement; committed."""
        with self.connect() as connection:
            found = connection.execute(text)
            return found.fetchall() if found.description else []


@contextmanager
def postgres() -> Iterator[Postgres]:
    """Make a database, start its server, and leave nothing of it."""
    # The server refuses to run as root, and its user cannot see into the folders of pytest.
    user = "postgres" if os.getuid() == 0 else getpass.getuser()
    folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    shutil.chown(folder, user)
    who: dict[str, Any] = {"user": user, "group": pwd.getpwnam(user).pw_gid, "cwd": folder} if os.getuid() == 0 else {}
    try:
        _make(folder, who)
        port = free_port()
        settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        command = [
            _program("postgres"),
            "-D",
            str(folder / "data"),
            *(word for each in settings for word in ("-c", each)),
        ]
        with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, **who) as server:
            try:
                yield _ready(Postgres(port), server, folder / "log")
            finally:
                server.send_signal(signal.SIGINT)
                server.wait(_START_SECONDS)
    finally:
        shutil.rmtree(folder)


def _make(folder: Path, who: dict[str, Any]) -> None:
    secret = folder / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)
    options = [
        "--username=tests",
        "--auth=scram-sha-256",
        f"--pwfile={secret}",
        "--no-sync",
        "--no-locale",
        "-E",
        "UTF8",
    ]
    made = subprocess.run(
        [_program("initdb"), "-D", str(folder / "data"), *options], capture_output=True, text=True, **who
    )
    assert made.returncode == 0, f"initdb failed: {made.stderr}"


def _ready(made: Postgres, server: subprocess.Popen[bytes], log: Path) -> Postgres:
    deadline = monotonic() + _START_SECONDS
    while True:
        assert server.poll() is None, f"PostgreSQL ended: {log.read_text()}"
        try:
            made.connect().close()
            return made
        except psycopg.OperationalError:
            assert monotonic() < deadline, f"PostgreSQL does not answer: {log.read_text()}"


def _program(name: str) -> str:
    # Debian keeps the programs of each version apart from the PATH.
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    found = str(places[-1]) if places else shutil.which(name)
    assert found, "these tests need PostgreSQL: install the Debian package postgresql (make test does so as root)"
    return found
