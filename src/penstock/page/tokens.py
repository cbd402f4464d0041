"""The page's token: made once, kept in a file that only its owner can read, compared in constant time."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from penstock.errors import PenstockError

_BYTES = 32
FILE = "page-token"


class TokenError(PenstockError):
    """The file with the page's token cannot be trusted."""


def kept_token(storage: str) -> str:
    """The token of a storage: the same after a restart, so that Prometheus can read it; a fresh one for a URL."""
    if "://" in storage:
        return new_token()
    file = Path(storage, FILE)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return _read(file)
    with os.fdopen(made, "w", encoding="ascii") as opened:
        token = new_token()
        opened.write(token)
    return token


def new_token() -> str:
    """256 random bits."""
    return secrets.token_urlsafe(_BYTES)


def _read(file: Path) -> str:
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise TokenError(f"{file} cannot be read: {error.strerror}; delete it, and a new one is made") from error
    with os.fdopen(opened, encoding="ascii", errors="replace") as text:
        said = os.fstat(text.fileno())
        if said.st_uid != os.getuid() or stat.S_IMODE(said.st_mode) & 0o077:
            raise TokenError(f"{file} can be read by others; delete it, and a new one is made")
        token = text.read().strip()
    if len(token) < _BYTES:
        raise TokenError(f"{file} holds no token; delete it, and a new one is made")
    return token


@dataclass(frozen=True)
class Gate:
    """Compares what a request carries with the token."""

    token: str

    def opens(self, given: str) -> bool:
        """Whether this is the token; it takes the same time for every wrong one."""
        return hmac.compare_digest(given.encode(), self.token.encode())

    @property
    def proof(self) -> str:
        """What the page sends with every change: only who could read an answer of ours knows it."""
        return hmac.new(self.token.encode(), b"penstock page changes", sha256).hexdigest()

    def proves(self, given: str) -> bool:
        """Whether this is the proof."""
        return hmac.compare_digest(given.encode(), self.proof.encode())
