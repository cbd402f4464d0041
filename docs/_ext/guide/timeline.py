"""A diagram of windows and watermarks: each batch a row, time from left to right, late rows in red.

The arithmetic is Spark's: the watermark of a batch is the newest time of the batches before it, less the delay; a row
counts in a window as long as the window's end is after the watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_MINUTES = {"minute": 1, "minutes": 1, "hour": 60, "hours": 60}
_LEFT, _WIDTH, _ROW, _BAR = 76, 660, 34, 18


def minutes(text: str) -> int:
    """`15 minutes` as a number."""
    number, unit = text.split()
    return int(number) * _MINUTES[unit]


def clock(time: float) -> str:
    """Minutes of a day as HH:MM."""
    return f"{int(time) // 60:02d}:{int(time) % 60:02d}"


def time_of(text: str) -> int:
    """`10:05` as minutes of the day."""
    hours, _, rest = text.partition(":")
    return int(hours) * 60 + int(rest)


def windows_of(time: int, length: int, slide: int) -> list[tuple[int, int]]:
    """The windows that a time falls into, earliest first."""
    last = time - time % slide
    starts = range(last, last - length, -slide)
    return sorted((start, start + length) for start in starts if start <= time < start + length)


def watermarks(batches: Sequence[Sequence[int]], delay: int) -> list[int | None]:
    """The watermark that each batch is judged by, and the one after the last."""
    found: list[int | None] = [None]
    newest: int | None = None
    for batch in batches:
        newest = max([*batch, *([newest] if newest is not None else [])], default=None)
        found.append(None if newest is None else newest - delay)
    return found


def fate(time: int, newest_before: int | None, watermark: int | None, length: int, slide: int) -> str:
    """`on-time`, `late` but counted in at least one window, or `too-late` for all of them."""
    if watermark is not None and all(end <= watermark for _, end in windows_of(time, length, slide)):
        return "too-late"
    return "late" if newest_before is not None and time < newest_before else "on-time"


def draw_timeline(window: str, delay: str, batches: list[list[str]], slide: str = "") -> str:
    """The picture as SVG."""
    length, wait = minutes(window), minutes(delay)
    step = minutes(slide) if slide else length
    times = [[time_of(each) for each in batch] for batch in batches]
    marks = watermarks(times, wait)
    every = sorted({each for batch in times for time in batch for each in windows_of(time, length, step)})
    first = min([start for start, _ in every] + [mark for mark in marks if mark is not None])
    last = max(end for _, end in every)
    rows = len(times) * _ROW
    depth = min(len(every), -(-length // step))
    bars = depth * (_BAR + 4)
    height = rows + bars + 78

    def x(time: float) -> float:
        return _LEFT + (time - first) / (last - first) * _WIDTH

    label = f"windows of {window}, a delay of {delay}"
    parts = [
        f'<svg class="guide" viewBox="0 0 {_LEFT + _WIDTH + 24} {height}" width="{_LEFT + _WIDTH + 24}" role="img" '
        f'aria-label="{escape(label)}">'
    ]
    tick = step if (last - first) / step <= 16 else length
    for time in range(first - first % tick + (tick if first % tick else 0), last + 1, tick):
        parts.append(f'<line class="thin" x1="{x(time):.1f}" x2="{x(time):.1f}" y1="6" y2="{rows + bars + 14}"/>')
        parts.append(
            f'<text class="quiet" text-anchor="middle" x="{x(time):.1f}" y="{rows + bars + 28}">{clock(time)}</text>'
        )
    newest: int | None = None
    for number, batch in enumerate(times):
        y = 8 + number * _ROW
        mark = marks[number]
        parts.append(f'<text x="2" y="{y + 21}">batch {number}</text>')
        if mark is not None:
            parts.append(
                f'<rect class="past" x="{_LEFT}" width="{x(mark) - _LEFT:.1f}" y="{y}" height="{_ROW - 4}"/>'
                f'<line class="mark" x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="{y}" y2="{y + _ROW - 4}"/>'
            )
        for time in batch:
            kind = fate(time, newest, mark, length, step)
            parts.append(
                f'<circle class="{kind}" cx="{x(time):.1f}" cy="{y + 12}" r="6"/>'
                f'<text class="quiet" text-anchor="middle" x="{x(time):.1f}" y="{y + 29}">{clock(time)}</text>'
            )
        newest = max([*batch, *([newest] if newest is not None else [])], default=None)
    for number, (start, end) in enumerate(every):
        y = rows + 12 + number % depth * (_BAR + 4)
        parts.append(
            f'<rect class="window" x="{x(start) + 1:.1f}" width="{x(end) - x(start) - 2:.1f}" y="{y}" '
            f'height="{_BAR}" rx="3"/>'
            f'<text class="quiet" text-anchor="middle" x="{x((start + end) / 2):.1f}" y="{y + 13}">'
            f"{clock(start)}–{clock(end)}</text>"
        )
    parts.append(_legend(height))
    return "\n".join([*parts, "</svg>"])


def _legend(height: int) -> str:
    words = [("on-time", "in order"), ("late", "late, and counted"), ("too-late", "too late, left out")]
    parts = []
    for number, (kind, says) in enumerate(words):
        at = _LEFT + number * 130
        parts.append(f'<circle class="{kind}" cx="{at}" cy="{height - 22}" r="5"/>')
        parts.append(f'<text class="quiet" x="{at + 10}" y="{height - 18}">{says}</text>')
    at = _LEFT + 3 * 130 + 10
    parts.append(f'<line class="mark" x1="{at}" x2="{at}" y1="{height - 30}" y2="{height - 14}"/>')
    parts.append(f'<text class="quiet" x="{at + 8}" y="{height - 18}">the watermark of this batch</text>')
    return "".join(parts)
