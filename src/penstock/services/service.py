"""A local service: one program on one loopback port, with its data in a folder."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from penstock.errors import CallError, ServiceError
from penstock.java import find_java
from penstock.services.process import Process, Progress, Status

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Service:
    """A service with its data in `folder`; without `port` it uses the default one, or a free one that it then keeps."""

    folder: Path
    class_path: Sequence[Path] = ()
    port: int | None = None

    name: ClassVar[str]
    jars: ClassVar[str]
    default_port: ClassVar[int]
    start_timeout_seconds: ClassVar[float] = 60.0

    def start(self, progress: Progress) -> str:
        """Start it unless it runs, wait until it answers, and return its address."""
        with self._process.lock(progress):
            found = self._process.status()
            if found.state == "running" and found.address is not None:
                self._refuse_other_port(found.address)
                self._refuse_other_settings()
                self._wait(found.address, progress)
                return found.address
            return self._launch(progress)

    def stop(self) -> Status:
        """Stop it and return the status it had; its data stays."""
        if not self.folder.exists():
            return self.status()
        with self._process.lock(lambda _: None):
            return self._process.stop()

    def status(self) -> Status:
        """Whether it runs, where and since when."""
        return self._process.status()

    def _command(self, port: int, progress: Progress) -> list[str]:
        """Write its settings for a port, and return the command that starts it."""
        raise NotImplementedError

    def _is_ready(self, address: str) -> bool:
        """Whether this service, and not another one on the same port, accepts requests."""
        raise NotImplementedError

    def _finish_start(self, address: str) -> None:
        """Finish the setup once it answers."""

    def _refuse_other_settings(self) -> None:
        """Raise an error if it runs with different settings."""

    @property
    def _process(self) -> Process:
        return Process(self.name, self.folder.absolute())

    def _launch(self, progress: Progress) -> str:
        port = self._choose_port()
        try:
            return self._start_at(port, progress)
        except ServiceError:
            # Another program took the port after we probed it; that only matters if the user chose it.
            if self.port is not None or port_conflict(port) is None:
                raise
            return self._start_at(free_port(), progress)

    def _start_at(self, port: int, progress: Progress) -> str:
        address = f"{HOST}:{port}"
        self._process.start(self._command(port, progress), address)
        try:
            self._wait(address, progress)
            self._finish_start(address)
        except BaseException:  # Ctrl-C too: an abandoned service would keep the port
            self._process.stop()
            raise
        (self.folder / "port").write_text(f"{port}\n", encoding="utf-8")
        return address

    def _wait(self, address: str, progress: Progress) -> None:
        if self._is_ready(address):
            return
        progress(f"waiting for {self.name} to answer on {address}")
        self._process.wait(lambda: self._is_ready(address), self.start_timeout_seconds)

    def _refuse_other_port(self, address: str) -> None:
        if self.port is not None and address != f"{HOST}:{self.port}":
            says = f"{self.name} already runs on {address}, not on port {self.port}"
            raise CallError(f"{says}; run `penstock dev down {self.name}` first")

    def _choose_port(self) -> int:
        if self.port is None:
            likely = (port for port in (self._last_port(), self.default_port) if port and port_conflict(port) is None)
            return next(likely, free_port())
        why = port_conflict(self.port)
        if why is not None:
            says = f"{self.name} cannot use port {self.port}: {why}"
            raise ServiceError(f"{says}; choose another one with --port, or omit it")
        return self.port

    def _last_port(self) -> int | None:
        try:
            return int((self.folder / "port").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def _java(self, main: str, *arguments: str, flags: Sequence[str]) -> list[str]:
        if not self.class_path:
            says = f"{self.name} needs its jars to start"
            raise CallError(f"{says}; run `penstock jars fetch {self.jars}` and pass them as class_path")
        class_path = os.pathsep.join(str(jar.absolute()) for jar in self.class_path)
        return [str(find_java()), *flags, "-cp", class_path, main, *arguments]


def is_listening(address: str) -> bool:
    """Whether anything accepts connections at an address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def port_conflict(port: int) -> str | None:
    """The reason why a local port is unavailable; None if it is free."""
    with socket.socket() as probe:
        # Like Java: connections in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            return "another program listens on it" if taken else (error.strerror or "unknown reason").lower()
    return None


def free_port() -> int:
    """Find an unused port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
