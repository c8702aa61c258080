"""What pages are built of: their frame, tables, pictures, and charts of HTML and inline SVG.

A page is one file without a script, and a policy in it forbids loading anything.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.files import atomic_path
from posemill.inspection.drawing.picture_files import jpeg_bytes, writing
from posemill.language import chosen_language
from posemill.messages import Message, render
from posemill.records import Frame
from posemill.skeletons.palette import (
    BACKGROUND,
    EMPTY,
    GREY,
    GRID,
    INK,
    grade,
    hex_of,
    part_colour,
    part_label,
)
from posemill.terminal import printable

_COLOURS = (
    f":root {{ color-scheme: light; --ink: {INK}; --quiet: {GREY}; --line: {GRID}; "
    f"--empty: {EMPTY}; --dark: {hex_of(BACKGROUND)}; }}\n"
)
# Whatever is in the data, the browser loads nothing and runs nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def text(value: Any) -> str:
    """Return a value as HTML text: escaped, control characters and lone surrogates shown as ?."""
    return html.escape(printable(render(value), keep=""))


def write_page(out: Path, command: str, title: str, *content: str, subtitle: str) -> None:
    """Write the page of a command: one file, whole or not at all.

    Args:
        out: The HTML file.
        command: `report` or the like.
        title: Plain text, as the subtitle is.
        content: HTML.
        subtitle: Below the title.
    """
    language = chosen_language().replace("_", "-")
    body = "\n".join(content)
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    document = (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)} - posemill {command}</title>"
        f"<style>{_COLOURS}{style}</style></head><body><main>"
        f'<p class="quiet">posemill {command}</p><h1>{text(title)}</h1>'
        f'<p class="quiet">{text(subtitle)}</p>{body}</main></body></html>\n'
    )
    with writing(out), atomic_path(out) as temporary:
        temporary.write_text(document, encoding="utf-8")


def section(heading: str, *content: str, remark: str = "") -> str:
    """Return a section; `heading` and `remark` are plain text, the content is HTML."""
    said = paragraph(remark, style="quiet") if remark else ""
    return f"<section><h2>{text(Message(heading))}</h2>{said}{''.join(content)}</section>"


def paragraph(words: str, *, style: str = "") -> str:
    """Return plain text as a paragraph, or as a heading for `h3`."""
    if style == "h3":
        return f"<h3>{text(words)}</h3>"
    kind = f' class="{style}"' if style else ""
    return f"<p{kind}>{text(words)}</p>"


def clip_block(heading: str, words: str, figures: str, *, is_pair: bool = False) -> str:
    """Return a clip with its pictures; `heading` and `figures` are HTML, `words` plain text."""
    style = "pictures pair" if is_pair else "pictures"
    return (
        f'<div class="clip">{heading}<div class="quiet">{text(words)}</div>'
        f'<div class="{style}">{figures}</div></div>'
    )


def tiles(counts: Iterable[tuple[int, str]]) -> str:
    """Return large numbers, each with words below it."""
    shown = (
        f'<div class="tile"><b>{count:,}</b>{text(Message(words))}</div>' for count, words in counts
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; numbers stand right, everything is escaped."""
    kept, columns = [tuple(row) for row in rows], [Message(name) for name in columns]
    is_number = [
        bool(kept) and all(isinstance(row[number], int | float) for row in kept)
        for number in range(len(columns))
    ]
    styles = [' class="number"' if flag else "" for flag in is_number]
    head = "".join(
        f"<th{style}>{text(name)}</th>" for name, style in zip(columns, styles, strict=True)
    )
    lines = (
        "<tr>"
        + "".join(
            f'<td{style} data-column="{text(name)}">{text(_shown(value))}</td>'
            for name, value, style in zip(columns, row, styles, strict=True)
        )
        + "</tr>"
        for row in kept
    )
    return f"<table><tr>{head}</tr>{''.join(lines)}</table>"


def figure(picture: Frame, caption: str, *, longest: int = 360) -> str:
    """Return a picture inside the page, as JPEG, with a caption that is plain text.

    Args:
        picture: RGB.
        caption: Also what a screen reader says.
        longest: Pixels of its longer side, at most.
    """
    return (
        f'<figure><img alt="{text(caption)}" src="{picture_uri(picture, longest)}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def picture_uri(picture: Frame, longest: int) -> str:
    """Return an RGB picture as a `data:` address: JPEG, its longer side at most so long."""
    data = base64.b64encode(jpeg_bytes(picture, longest=longest))
    return f"data:image/jpeg;base64,{data.decode()}"


def _shown(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else value


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


def line_chart(lines: Sequence[tuple[str, npt.NDArray[Any]]], *, label: str) -> str:
    """Return curves over time, the first one wide and pale, behind the others.

    Args:
        lines: Colour of each, and its `(frames,)` values, NaN where it is broken.
        label: What they show; stands above them.
    """
    left, top, width, height = 40, 8, 376.0, 200.0  # no wider than a phone
    known = np.concatenate([values[np.isfinite(values)] for _, values in lines])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    scale = (height - top - 8) / max(high - low, 1e-6)
    marks = [paragraph(label, style="quiet"), _open_svg(width, height, label)]
    for value in (low, high):
        y = height - 8 - (value - low) * scale
        marks.append(
            f'<line x1="{left}" x2="{width:g}" y1="{y:.1f}" y2="{y:.1f}" stroke="{GRID}"/>'
        )
        marks.append(_text(left - 6, y + 4, f"{value:.0f}", anchor="end"))
    for number, (colour, values) in enumerate(lines):
        step = (width - left) / max(1, len(values) - 1)
        style = 'stroke-width="1.5"' if number else 'stroke-width="5" stroke-opacity="0.3"'
        gaps = np.flatnonzero(np.diff(np.isfinite(values).astype(int))) + 1
        for piece in np.split(np.arange(len(values)), gaps):
            if np.isfinite(values[piece[:1]]).any():
                places = (
                    f"{left + step * row:.1f},{height - 8 - (values[row] - low) * scale:.1f}"
                    for row in piece
                )
                marks.append(
                    f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" {style}/>'
                )
    return "".join([*marks, "</svg>"])


def colour_key(colours: Iterable[tuple[str, str]]) -> str:
    """Return words, each behind a box of its colour."""
    shown = (
        f'<span><i style="background:{colour}"></i>{text(words)}</span>'
        for words, colour in colours
    )
    return f'<p class="key">{"".join(shown)}</p>'


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
