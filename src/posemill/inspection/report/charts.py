"""Charts as inline SVG: no script, no font and no picture from elsewhere; dark text on white."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from posemill.inspection.drawing.palette import BODY_PARTS, part_label
from posemill.inspection.report.page import text

# Okabe and Ito's colours, told apart with any kind of colour vision, dark enough on white.
PART_COLOURS = {
    "face": "#b5589c",
    "left_hand": "#d98200",
    "right_hand": "#00866b",
    "feet": "#8a6d3b",
}
_BODY_COLOUR = "#1f6fb2"
_TEXT = "#1d232b"
_GRID = "#dde1e7"
_EMPTY = "#eceff3"


def part_colour(name: str) -> str:
    """Return the colour of a part's bars, as `#rrggbb`."""
    return _BODY_COLOUR if name in BODY_PARTS and name != "feet" else PART_COLOURS.get(name, "#666")


def bar_chart(
    groups: Sequence[tuple[str, Sequence[tuple[str, float, str]]]],
    *,
    maximum: float,
    unit: str,
    label: str,
) -> str:
    """Return horizontal bars in groups, with an axis.

    Args:
        groups: Heading of each group and its bars: part name, value, and the text at its end.
        maximum: The axis' right end.
        unit: Written after the numbers of the axis.
        label: What the chart shows, for screen readers.
    """
    left, width, right, row, gap = 130, 520, 110, 20, 30
    rows = sum(len(bars) for _, bars in groups)
    height = rows * row + len(groups) * gap + 28
    marks = [_open_svg(left + width + right, height, label)]
    bottom = height - 24
    for tick in nice_ticks(maximum):
        x = left + width * tick / maximum
        marks.append(f'<line x1="{x:.1f}" y1="6" x2="{x:.1f}" y2="{bottom}" stroke="{_GRID}"/>')
        marks.append(_text(x, bottom + 16, f"{tick:g}{unit}", anchor="middle"))
    y = 4.0
    for heading, bars in groups:
        marks.append(_text(8, y + 18, heading, weight="600"))
        y += gap
        for name, value, words in bars:
            length = width * min(max(value, 0.0), maximum) / maximum
            marks.append(_text(left - 8, y + 13, part_label(name), anchor="end"))
            marks.append(_box((left, y + 2), (max(length, 0.8), row - 5), part_colour(name)))
            marks.append(_text(left + length + 6, y + 13, words))
            y += row
    return "".join([*marks, "</svg>"])


def histogram(
    labels: Sequence[str], counts: Sequence[int], *, colour: str, x_label: str, label: str
) -> str:
    """Return upright bars with their counts on top, for a number of clips in each bin."""
    left, bottom, height, step = 16, 44, 150, 40
    width = left * 2 + step * len(labels)
    top = max([*counts, 1])
    marks = [_open_svg(width, height + bottom, label)]
    for number, (name, count) in enumerate(zip(labels, counts, strict=True)):
        x = left + number * step
        bar = (height - 36) * count / top
        marks.append(_box((x + 2, height - bar), (step - 4, bar), colour))
        if count:
            marks.append(_text(x + step / 2, height - bar - 4, short(count), anchor="middle"))
        marks.append(_text(x + step / 2, height + 14, name, anchor="middle", size=10))
    line = f'<line x1="{left}" y1="{height}" x2="{width - left}" y2="{height}" stroke="{_TEXT}"/>'
    marks.append(_text(left, 12, "clips", size=11))
    marks += [line, _text(width / 2, height + 34, x_label, anchor="middle")]
    return "".join([*marks, "</svg>"])


def strip_chart(strips: Sequence[tuple[str, npt.NDArray[np.uint8]]], *, label: str) -> str:
    """Return one thin row per part: coloured while it was found, white while it was missing.

    Args:
        strips: Part name, and `(bins,)` presence over time, 255 for every frame of the bin.
        label: For screen readers.
    """
    width, row = 480.0, 9
    marks = [_open_svg(width, row * len(strips) + 1, label)]
    for number, (name, strip) in enumerate(strips):
        y = number * row
        marks.append(_box((0, y), (width, row - 2), _EMPTY))
        bins = max(1, len(strip))
        # Neighbours alike become one box: a part that is always there costs one.
        edges = [0, *(np.flatnonzero(np.diff(strip.astype(int))) + 1).tolist(), len(strip)]
        for start, stop in pairwise(edges):
            if stop > start and strip[start]:
                opacity = strip[start] / 255
                shown = "" if opacity == 1 else f' fill-opacity="{0.15 + 0.85 * opacity:.2f}"'
                x, length = width * start / bins, width * (stop - start) / bins
                marks.append(_box((x, y), (length, row - 2), part_colour(name), shown))
    return "".join([*marks, "</svg>"])


def nice_ticks(maximum: float) -> list[float]:
    """Return four to ten round numbers from 0 to at most `maximum`."""
    raw = maximum / 5
    power = 10.0 ** np.floor(np.log10(raw)) if raw > 0 else 1.0
    step = next(float(power * each) for each in (1, 2, 5, 10) if power * each >= raw * 0.999)
    return [round(step * number, 12) for number in range(int(maximum / step + 1e-9) + 1)]


def nice_maximum(value: float) -> float:
    """Return a round number that is not below the value, for the end of an axis."""
    if value <= 0:
        return 1.0
    power = float(10.0 ** np.floor(np.log10(value)))
    return next(power * each for each in (1, 1.5, 2, 3, 5, 7.5, 10) if power * each >= value)


def short(count: int) -> str:
    """Return a count in at most five characters: 12.3k, 4.5M."""
    for limit, letter in ((1_000_000, "M"), (10_000, "k")):
        if count >= limit:
            return f"{count / (1000 if letter == 'k' else limit):.3g}{letter}"
    return str(count)


def _open_svg(width: float, height: float, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-label="{text(label)}" font-size="12" fill="{_TEXT}">'
    )


def _text(
    x: float, y: float, words: str, *, anchor: str = "start", weight: str = "", size: int = 0
) -> str:
    extra = f' font-weight="{weight}"' if weight else ""
    extra += f' font-size="{size}"' if size else ""
    extra += f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{extra}>{text(words)}</text>'


def _box(
    at_xy: tuple[float, float], size_wh: tuple[float, float], colour: str, extra: str = ""
) -> str:
    (x, y), (width, height) = at_xy, size_wh
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{colour}"{extra}/>'
    )
