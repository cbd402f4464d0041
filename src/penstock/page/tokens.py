"""The page's token: new for each run, in a file that only its owner can read, compared in constant time."""

from __future__ import annotations

import hmac
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from penstock.errors import PenstockError

_BYTES = 32


class TokenError(PenstockError):
    """The file with the page's token cannot be written."""


def new_token() -> str:
    """256 random bits."""
    return secrets.token_urlsafe(_BYTES)


@contextmanager
def token_file(storage: str, port: int, token: str) -> Iterator[Path]:
    """A file with the token while the block runs; its name has the port, so that Prometheus finds it after a restart.

    It is in the storage, or in a temporary folder if the storage is a URL.
    """
    with ExitStack() as stack:
        folder = Path(storage)
        if "://" in storage:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-page-")))
        file = folder / f"page-token-{port}"
        _write(file, token)
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)


def _write(file: Path, token: str) -> None:
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(token)
        # Replaces a symbolic link of this name instead of following it.
        temporary.replace(file)
    except OSError as error:
        fix = "make that folder writable for this user"
        raise TokenError(f"the page's token cannot be written to {file}: {error.strerror}; {fix}") from error


@dataclass(frozen=True)
class PageToken:
    """The token, and the CSRF token derived from it."""

    value: str

    def matches(self, given: str) -> bool:
        """Whether this is the token; compared in constant time."""
        return hmac.compare_digest(given.encode(), self.value.encode())

    @property
    def csrf(self) -> str:
        """The CSRF token of the page's POST requests; other sites cannot read the response that has it."""
        return hmac.new(self.value.encode(), b"penstock page changes", sha256).hexdigest()

    def matches_csrf(self, given: str) -> bool:
        """Whether this is the CSRF token; compared in constant time."""
        return hmac.compare_digest(given.encode(), self.csrf.encode())
