"""The installed Penstock as a wheel, so that an image gets this very version and asks no registry for its name."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import penstock

_WHEEL = "Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# The oldest time that a zip can hold: the same files make the same wheel.
_TIME = (1980, 1, 1, 0, 0, 0)


def wheel_name() -> str:
    """Its file name, which pip reads the version and the platforms from."""
    return f"penstock-{metadata.version('penstock')}-py3-none-any.whl"


def write_wheel(folder: Path) -> Path:
    """Write it to a folder."""
    target = folder / wheel_name()
    about = f"penstock-{metadata.version('penstock')}.dist-info"
    record = ""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (*_package(), *_about(about)):
            _add(archive, name, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
        _add(archive, f"{about}/RECORD", f"{record}{about}/RECORD,,\n".encode())
    return target


def _package() -> Iterator[tuple[str, bytes]]:
    root = Path(penstock.__file__).parent
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root.parent).as_posix(), path.read_bytes()


def _about(folder: str) -> Iterator[tuple[str, bytes]]:
    installed = metadata.distribution("penstock")
    described = installed.read_text("METADATA") or installed.read_text("PKG-INFO") or ""
    yield f"{folder}/METADATA", described.encode()
    yield f"{folder}/entry_points.txt", (installed.read_text("entry_points.txt") or "").encode()
    yield f"{folder}/WHEEL", _WHEEL.encode()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
