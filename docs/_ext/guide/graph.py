"""A pipeline drawn from left to right: sources, steps, sinks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

_WIDTH, _HEIGHT, _GAP_X, _GAP_Y = 150, 44, 56, 16


def draw_graph(nodes: Sequence[dict[str, Any]]) -> str:
    """The picture as SVG; a node stands one column right of the last that it reads."""
    columns = _columns(nodes)
    places = _places(nodes, columns)
    width = (max(columns.values()) + 1) * (_WIDTH + _GAP_X) - _GAP_X + 4
    height = max(y for _, y in places.values()) + _HEIGHT + 4
    names = ", ".join(f"{node['name']} ({node['kind']})" for node in nodes)
    parts = [
        f'<svg class="guide" viewBox="-2 -2 {width} {height}" width="{width}" role="img" aria-label="{escape(names)}">'
    ]
    for node in nodes:
        parts += [_edge(places[name], places[node["name"]]) for name in node["reads"] if name in places]
    parts += [_box(node, *places[node["name"]]) for node in nodes]
    return "\n".join([*parts, "</svg>"])


def _columns(nodes: Sequence[dict[str, Any]]) -> dict[str, int]:
    reads = {node["name"]: list(node["reads"]) for node in nodes}
    found: dict[str, int] = {}

    def column(name: str) -> int:
        if name not in found:
            found[name] = 0
            found[name] = 1 + max((column(each) for each in reads[name] if each in reads), default=-1)
        return found[name]

    for name in reads:
        column(name)
    last = max(found.values())
    return {node["name"]: last if node["role"] == "sink" else found[node["name"]] for node in nodes}


def _places(nodes: Sequence[dict[str, Any]], columns: dict[str, int]) -> dict[str, tuple[float, float]]:
    places: dict[str, tuple[float, float]] = {}
    for column in range(max(columns.values()) + 1):
        # In the order of what they read, so that few lines cross.
        here = [node for node in nodes if columns[node["name"]] == column]
        here.sort(key=lambda node: min((places[name][1] for name in node["reads"] if name in places), default=0))
        lowest = 0.0
        for node in here:
            before = [places[name][1] for name in node["reads"] if name in places]
            y = max(lowest, sum(before) / len(before) if before else lowest)
            places[node["name"]] = (column * (_WIDTH + _GAP_X), y)
            lowest = y + _HEIGHT + _GAP_Y
    return places


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1, x2, y2 = start[0] + _WIDTH, start[1] + _HEIGHT / 2, end[0], end[1] + _HEIGHT / 2
    bend = (x2 - x1) / 2
    return (
        f'<path class="line" d="M{x1:g} {y1:g} C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2 - 6:g} {y2:g}"/>'
        f'<path class="tip" d="M{x2:g} {y2:g} l-8 -4 v8 z"/>'
    )


def _box(node: dict[str, Any], x: float, y: float) -> str:
    kind = f"{node['kind']} {node['role']}" if node["role"] != "step" else node["kind"]
    if node.get("static"):
        kind = f"{node['kind']} table"
    extra = f", {node['mode']}" if node.get("mode") else ""
    return (
        f'<rect class="box {node["role"]}" x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{x + 10:g}" y="{y + 19:g}">{escape(node["name"])}</text>'
        f'<text class="quiet" x="{x + 10:g}" y="{y + 35:g}">{escape(kind + extra)}</text>'
    )
