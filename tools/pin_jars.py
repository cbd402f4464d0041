"""python -m tools.pin_jars [--alone] GROUP ORGANISATION:NAME:VERSION...: print lines for jars.lock."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from penstock.jars import ivy
from penstock.jars.lock import sha256


def lock_lines(group: str, coordinates: Sequence[str], *, alone: bool = False) -> list[str]:
    """Lock lines for some jars and, unless `alone`, their runtime dependencies."""
    with tempfile.TemporaryDirectory(prefix="penstock-pin-") as staging:
        ivy.run(Path(staging), coordinates, lambda: None, transitive=not alone)
        jars = sorted(path for path in ivy.downloaded_files(Path(staging)) if path.suffix == ".jar")
        return [_line(group, path) for path in jars]


def _line(group: str, path: Path) -> str:
    coordinate = f"{path.parent.parent.name}:{path.parent.name}:{path.stem}"
    return f"{group} {coordinate} {path.stat().st_size} {sha256(path)}"


def main() -> None:
    """Print the lock lines."""
    parser = argparse.ArgumentParser(prog="python -m tools.pin_jars", description="Print lines for jars.lock.")
    parser.add_argument("group")
    parser.add_argument("jars", nargs="+", metavar="ORGANISATION:NAME:VERSION")
    parser.add_argument("--alone", action="store_true", help="Only these jars, without their dependencies.")
    call = parser.parse_args()
    sys.stdout.write("\n".join(lock_lines(call.group, call.jars, alone=call.alone)) + "\n")


if __name__ == "__main__":
    main()
