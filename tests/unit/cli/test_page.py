"""Who is shown the page's token."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path


def test_a_terminal_gets_the_link_and_stderr_in_a_file_does_not_get_the_token(tmp_path: Path):
    (tmp_path / ".penstock").mkdir()
    ours, theirs = pty.openpty()
    with (tmp_path / "said").open("wb") as said:
        command = [sys.executable, "-m", "penstock", "page", "--port", "0"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=said, stdin=subprocess.DEVNULL)
    os.close(theirs)

    with os.fdopen(ours, "rb", buffering=0) as terminal:
        printed = b""
        while not printed.endswith(b"\n"):
            printed += terminal.read(4096)
        (file,) = (tmp_path / ".penstock").glob("page-token-*")
        token = file.read_text()
        process.terminate()
        assert process.wait(60) == 0

    assert printed.decode().strip().endswith(f"/#token={token}")
    assert token not in (tmp_path / "said").read_text()
    assert not file.exists()
