"""Sphinx configuration of the guide: `make docs`. Warnings are errors, and the pages load nothing from other hosts."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "Penstock"
copyright = "the Penstock authors"
extensions = ["myst_parser", "guide"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_ext", "_static"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
highlight_language = "text"
html_theme = "furo"
html_title = "Penstock"
html_static_path = ["_static"]
html_css_files = ["guide.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
man_pages = [("reference/cli", "penstock", "streaming pipelines on Apache Spark", ["the Penstock authors"], 1)]
