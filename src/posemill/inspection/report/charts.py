"""Charts of HTML and inline SVG: no script, no font and no picture from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from posemill.inspection.report.page import text
from posemill.messages import Message
from posemill.skeletons.palette import EMPTY, INK, grade, part_colour, part_label


def bar_chart(
    groups: Sequence[tuple[str, Sequence[tuple[str, float, str]]]], *, maximum: float, label: str
) -> str:
    """Return horizontal bars in groups, as HTML: they are as wide as there is room.

    Args:
        groups: Heading of each group and its bars: part name, value, and the HTML beside it.
        maximum: What a bar as wide as the chart stands for.
        label: What the chart shows, for screen readers.
    """
    marks = [f'<div class="bars" role="group" aria-label="{text(label)}">']
    for heading, bars in groups:
        marks.append(f"<h3>{text(heading)}</h3>")
        for name, value, words in bars:
            share = 100 * min(max(value, 0.0), maximum) / maximum
            style = f"width:{share:.1f}%;background:{part_colour(name)}"
            marks.append(
                f'<div class="bar"><span>{text(part_label(name))}</span>'
                f'<div><i style="{style}"></i></div><span>{words}</span></div>'
            )
    return "".join([*marks, "</div>"])


def badge(share: float, words: str) -> str:
    """Return words on the colour of how good a share is, and the word for it: `31.0 % bad`."""
    found = grade(share)
    style = f"background:{found.colour}"
    return f'<span class="badge" style="{style}">{text(words)} {text(Message(found.word))}</span>'


def histogram(
    labels: Sequence[str],
    counts: Sequence[int],
    *,
    colour: str,
    x_label: str,
    label: str,
    counted: str = "clips",
) -> str:
    """Return upright bars with their counts on top, for what is `counted` in each bin."""
    # No wider than a phone: 10 bins are 376 pixels.
    left, bottom, height, step = 8, 56, 150, 36
    width = left * 2 + step * len(labels)
    top = max([*counts, 1])
    marks = [_open_svg(width, height + bottom, label)]
    for number, (name, count) in enumerate(zip(labels, counts, strict=True)):
        x = left + number * step
        bar = (height - 36) * count / top
        marks.append(_box((x + 2, height - bar), (step - 4, bar), colour))
        if count:
            marks.append(_text(x + step / 2, height - bar - 4, short(count), anchor="middle"))
        # In two lines, in turn: neighbours do not touch.
        y = height + 14 + 12 * (number % 2)
        marks.append(_text(x + step / 2, y, name, anchor="middle", size=11))
    line = f'<line x1="{left}" y1="{height}" x2="{width - left}" y2="{height}" stroke="{INK}"/>'
    marks.append(_text(left, 12, Message(counted)))
    marks += [line, _text(width / 2, height + 46, Message(x_label), anchor="middle")]
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
        marks.append(_box((0, y), (width, row - 2), EMPTY))
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


def short(count: int) -> str:
    """Return a count in at most five characters: 12.3k, 4.5M."""
    for limit, letter in ((1_000_000, "M"), (10_000, "k")):
        if count >= limit:
            return f"{count / (1000 if letter == 'k' else limit):.3g}{letter}"
    return str(count)


def _open_svg(width: float, height: float, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-label="{text(label)}" font-size="12" fill="{INK}">'
    )


def _text(x: float, y: float, words: str, *, anchor: str = "start", size: int = 0) -> str:
    extra = f' font-size="{size}"' if size else ""
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
