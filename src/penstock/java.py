"""Finds Java on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from penstock.errors import PenstockError

MIN_VERSION = 17
INSTALL = "install Java 17 (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


class JavaError(PenstockError):
    """No Java that Spark can use is installed."""


@cache
def find_java() -> Path:
    """Find the `java` program that Spark will use; otherwise an error that says what to install."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home!r}, which has no bin/java" if home else "no java on the PATH"
        raise JavaError(f"{where}; {INSTALL}")
    version = read_java_version(Path(found))
    if version < MIN_VERSION:
        raise JavaError(f"{found} is Java {version}, Spark 4.2 needs {MIN_VERSION} or later; {INSTALL}")
    return Path(found)


def read_java_version(program: Path) -> int:
    """Ask a `java` program for its feature release: 17, 21 ..."""
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    if match is None:
        raise JavaError(f"{program} -version printed {output[:80]!r}; {INSTALL}")
    return int(match.group(1))
