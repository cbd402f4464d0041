"""SQL texts with one mistake each, and right ones with syntax that only Spark has, each in a pipeline of its own.

wrong.txt       a column, a function or a type that Spark refuses, one text a line
right.txt       what Spark accepts
streaming.txt   an output mode, and what Spark cannot do with a stream in it
"""

from __future__ import annotations

from pathlib import Path

from penstock.load import load_text
from penstock.model import Pipeline

_SOURCES = """sources:
  orders:
    files:
      path: in/orders
      format: json
      schema: >-
        id bigint, customer string, amount decimal(10,2), quantity int, at timestamp, paid boolean, tags array<string>,
        address struct<city: string, zip: string>, prices map<string, double>, day date
    watermark: {column: at, delay: 10 minutes}
  rates:
    files: {path: in/rates, format: json, schema: "currency string, rate double, day date"}
    static: true
  files:
    files: {path: in/files, format: json, schema: "id bigint"}
"""


def read_texts(name: str) -> list[str]:
    """The texts of wrong.txt or right.txt."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()


def pipeline_of(text: str, mode: str = "") -> Pipeline:
    """A pipeline with a text as its step."""
    # Windows of sessions are written when they have ended.
    mode = mode or ("append" if "session_window" in text else "update")
    sinks = [f"  out: {{from: step, console: {{}}, mode: {mode}}}"]
    sinks += [f"  {name}_out: {{from: {name}, console: {{}}}}" for name in ("orders", "files")]
    # `rates` is read by this step.
    steps = ["  step: |", f"    {text}", "  known: SELECT o.id FROM orders o JOIN rates r ON o.day = r.day"]
    sinks += ["  known_out: {from: known, console: {}}"]
    return load_text("\n".join([_SOURCES + "steps:", *steps, "sinks:", *sinks, ""]).encode(), "pipeline.yaml")
