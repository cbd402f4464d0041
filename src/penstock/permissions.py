"""Which other users can change a file: code and state must be writable by their owner only."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path


def find_other_writers(path: Path) -> str:
    """Describe who besides us and root can change a file or folder; empty if only we can."""
    return other_writers(path.stat(), os.getuid())


def other_writers(found: os.stat_result, user: int) -> str:
    """The same for a `stat` result and a user."""
    mode = f"(mode {stat.S_IMODE(found.st_mode):03o})"
    if found.st_uid not in (user, 0):
        return f"its owner is user {found.st_uid}"
    if found.st_mode & stat.S_IWOTH:
        return f"everyone can {mode}"
    if found.st_mode & stat.S_IWGRP and not _is_private_group(found.st_gid, user):
        return f"its group can {mode}"
    return ""


def _is_private_group(group: int, user: int) -> bool:
    """Whether it is the user's private group: same id, no other member."""
    if group != user or group == 0:
        return False
    try:
        return not grp.getgrgid(group).gr_mem
    except KeyError:
        return True
