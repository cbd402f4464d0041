"""penstock deploy: files that run a pipeline as a service."""

from __future__ import annotations

import base64
import getpass
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import click

import penstock
from penstock.cli import print_status
from penstock.errors import CallError
from penstock.load import load
from penstock.load.files import find_pipeline_file
from penstock.model import Pipeline

_TEMPLATES = Path(__file__).parent / "templates" / "deploy"
_FILES = {
    "systemd": ("penstock.service", "penstock-{name}.service"),
    "docker": ("Dockerfile", "Dockerfile"),
    "kubernetes": ("kubernetes.yaml", "{name}-kubernetes.yaml"),
}
_MARGIN_SECONDS = 30
_NON_HEAP_MB = 1024
"""For the supervisor, the driver's Python process and the JVM's memory outside the heap."""
_UNITS = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024**2}


@click.command(short_help="Write a systemd unit, a Dockerfile or Kubernetes manifests for a pipeline.")
@click.argument("kind", type=click.Choice(sorted(_FILES)))
@click.argument("file", default=".", type=click.Path())
@click.option("--drain-seconds", default=60, show_default=True, help="Time for running batches to finish on stop.")
@click.option("--port", default=8085, show_default=True, type=click.IntRange(1, 65535), help="For /health and /ready.")
@click.option(
    "--to", "folder", type=click.Path(path_type=Path), help="Folder to write to (default: the folder of FILE)."
)
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def command(kind: str, file: str, drain_seconds: int, port: int, folder: Path | None, force: bool) -> None:
    """Write the files that run FILE as a service, with restarts, graceful stop, probes and limits.

    Example: penstock deploy systemd trades.yaml
    """
    pipeline, path = load(file), find_pipeline_file(Path(file)).resolve()
    template, name = _FILES[kind]
    target = (folder or path.parent) / name.format(name=pipeline.name)
    if target.exists() and not force:
        raise CallError(f"{target} already exists; overwrite it with --force")
    text = (_TEMPLATES / template).read_text(encoding="utf-8")
    target.parent.mkdir(parents=True, exist_ok=True)
    if kind == "docker":
        write_wheel(target.parent)
    target.write_text(text.format(**facts(pipeline, path, drain_seconds, port, kind)), encoding="utf-8")
    print_status(
        "\n".join(line.lstrip("# ") for line in target.read_text(encoding="utf-8").splitlines() if _is_hint(line))
    )
    click.echo(str(target))


def facts(pipeline: Pipeline, path: Path, drain_seconds: int, port: int, kind: str) -> dict[str, object]:
    """The values of the templates' placeholders."""
    return {
        "name": pipeline.name,
        "label": re.sub(r"[^a-z0-9-]+", "-", pipeline.name.lower()).strip("-"),
        "file": str(path) if kind == "systemd" else path.name,
        "folder": str(path.parent),
        "command": f"{sys.executable} -m penstock",
        "user": getpass.getuser(),
        "drain": drain_seconds,
        "stop": drain_seconds + _MARGIN_SECONDS,
        "port": port,
        "memory": memory_mb(pipeline),
        "wheel": wheel_name(),
    }


def memory_mb(pipeline: Pipeline) -> int:
    """The memory limit: the heap that the file sets, and what runs outside it."""
    size = pipeline.spark.get("spark.driver.memory", "2g").lower()
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", size)
    if match is None:
        raise CallError(f"{pipeline.at}: spark.driver.memory is {size!r}, expected a size like 2g; correct it")
    return int(int(match[1]) * _UNITS[match[2] or "m"]) + _NON_HEAP_MB


def _is_hint(line: str) -> bool:
    return bool(re.match(r"#\s{3}", line))


_WHEEL = "Wheel-Version: 1.0\nGenerator: penstock\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
# A fixed time, the oldest that a zip can hold, makes the wheel reproducible.
_TIME = (1980, 1, 1, 0, 0, 0)


def wheel_name() -> str:
    """The wheel's file name; pip parses the version and platforms from it."""
    return f"penstock-{metadata.version('penstock')}-py3-none-any.whl"


def write_wheel(folder: Path) -> Path:
    """Write the installed package as a wheel into a folder."""
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
    description = installed.read_text("METADATA") or installed.read_text("PKG-INFO") or ""
    yield f"{folder}/METADATA", description.encode()
    yield f"{folder}/entry_points.txt", (installed.read_text("entry_points.txt") or "").encode()
    yield f"{folder}/WHEEL", _WHEEL.encode()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
