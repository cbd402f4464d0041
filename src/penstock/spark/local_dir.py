"""A private folder for the temporary files of Spark: shuffle and block files, copies of state, native libraries.

Its lock dies with the process that made it, so what a killed process left behind is found and removed by the next one.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

_PREFIX = "penstock-spark-"


@cache
def local_dir() -> Path:
    """The folder of this process, mode 0700, removed when the process ends."""
    remove_leftovers()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if _lock(folder):
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder


def remove_leftovers() -> None:
    """Remove the folders of this user's processes that no longer live."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            # Another user's, or removed meanwhile.
            continue
        try:
            if os.fstat(opened).st_uid == os.getuid():
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            # Its owner lives.
            continue
        finally:
            os.close(opened)


def _lock(folder: Path) -> bool:
    """Lock the folder for the life of this process; False if it was removed as a leftover before the lock was ours."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return False
    fcntl.flock(opened, fcntl.LOCK_EX)
    if folder.exists():
        return True
    os.close(opened)
    return False
