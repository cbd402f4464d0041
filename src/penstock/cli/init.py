"""penstock init"""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import click

from penstock.errors import CallError

_FILES = {"pipeline.yaml": "{name}.yaml", "README.md": "README.md", "gitignore": ".gitignore"}


@click.command(short_help="Create a small project that is ready to run.")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    """Create a project in DIR: a pipeline that passes `check` and needs no services.

    Example: penstock init demo
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", folder.absolute().name).strip("-") or "pipeline"
    targets = {template: folder / target.format(name=name) for template, target in _FILES.items()}
    existing = [str(target) for target in targets.values() if target.exists()]
    if existing:
        raise CallError(f"{', '.join(existing)} already exists, and nothing was written; choose another folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for template, target in targets.items():
            text = (resources.files("penstock.cli") / "templates" / "init" / template).read_text(encoding="utf-8")
            target.write_text(text.format(name=name), encoding="utf-8")
    except OSError as error:
        raise CallError(f"cannot write to {folder}: {error.strerror}; choose another folder") from error
    for target in targets.values():
        click.echo(target)
    click.echo(f"next: cd {folder} && penstock check && penstock run", err=True)
