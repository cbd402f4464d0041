"""The Sphinx extension of the guide: generated references, diagrams, and links that stay inside the guide."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from guide.graph import draw_graph
from guide.reference import PARTS
from guide.timeline import draw_timeline

ROOT = Path(__file__).parents[3]
MARKER = re.compile(r"^<!-- generated: ([a-z]+) -->$", re.MULTILINE)
OUTSIDE = re.compile(r"\[([^\]\n]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
VARIABLES = {
    "EVENTHUBS_CONNECTION": "Endpoint=sb://shop.servicebus.windows.net/;"
    "SharedAccessKeyName=demo;SharedAccessKey=abc=;EntityPath=orders"
}


class Graph(SphinxDirective):
    """A diagram of a pipeline: of a file of the repository, or of a block of this page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The drawing, in the page itself."""
        name = self.arguments[0]
        page = Path(self.env.doc2path(self.env.docname)).read_text(encoding="utf-8")
        block = re.search(rf"^```yaml {re.escape(name)}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
        with TemporaryDirectory() as folder:
            path = ROOT / name
            if block:
                path = Path(folder, Path(name).name)
                path.write_text(block[1], encoding="utf-8")
            else:
                self.env.note_dependency(str(path))
            from penstock.load import load
            from penstock.storage.layout import manifest

            picture = draw_graph(manifest(load(path, {**os.environ, **VARIABLES}))["nodes"])
        return [nodes.raw("", picture, format="html")]


class Timeline(SphinxDirective):
    """Windows, events and the watermark, batch by batch."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The drawing, in the page itself."""
        settings: dict[str, Any] = yaml.safe_load("\n".join(self.content))
        return [nodes.raw("", draw_timeline(**settings), format="html")]


def _read(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    text = MARKER.sub(lambda found: PARTS[found[1]](), content[0])
    content[0] = OUTSIDE.sub(lambda found: _inside(page, found), text)


def _inside(page: Path, found: re.Match[str]) -> str:
    """A link to a file of the repository that is not a page becomes its name: the guide is self-contained."""
    target = (page.parent / found[2]).resolve()
    if target.is_relative_to(ROOT / "docs") or not target.exists():
        return found[0]
    name = target.relative_to(ROOT)
    return f"{found[1]} (`{name}`)" if str(name) not in found[1] else found[1]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives and the hook."""
    app.add_directive("graph", Graph)
    app.add_directive("timeline", Timeline)
    app.connect("source-read", _read)
    return {"version": "1", "parallel_read_safe": True}
