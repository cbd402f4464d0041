"""Where Java is on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

from penstock.errors import PenstockError

OLDEST = 17
INSTALL = "install Java 17 (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"


class JavaError(PenstockError):
    """There is no Java here that Spark can use."""


@cache
def java() -> Path:
    """The `java` program that Spark will use; an error that says what to install otherwise."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if found is None or not Path(found).exists():
        where = f"JAVA_HOME is {home!r}, which has no bin/java" if home else "no java on the PATH"
        raise JavaError(f"{where}; {INSTALL}")
    version = java_version(Path(found))
    if version < OLDEST:
        raise JavaError(f"{found} is Java {version}, Spark 4.2 needs {OLDEST} or later; {INSTALL}")
    return Path(found)


def java_version(program: Path) -> int:
    """The feature release of a `java` program: 17, 21 ..."""
    said = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        raise JavaError(f"{program} -version said {said[:80]!r}; {INSTALL}")
    return int(match.group(1))
