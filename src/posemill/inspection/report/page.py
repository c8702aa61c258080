"""What pages are built of: their frame, tables, pictures, and charts of HTML and inline SVG."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from posemill.decoders.pictures import encode_picture
from posemill.files import atomic_path
from posemill.inspection.drawing.picture_files import jpeg_bytes, writing
from posemill.language import chosen_language
from posemill.messages import Message, render
from posemill.records import Frame
from posemill.skeletons import palette
from posemill.terminal import printable

_COLOURS = (
    f":root {{ color-scheme: light; --ink: {palette.INK}; --quiet: {palette.GREY}; "
    f"--line: {palette.GRID}; --empty: {palette.EMPTY}; "
    f"--dark: {palette.hex_of(palette.BACKGROUND)}; }}\n"
)
_STRIP_WIDTH = 480
# Whatever is in the data, the browser loads nothing and runs nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def text(value: Any) -> str:
    """Return a value as HTML text: escaped, control characters and lone surrogates shown as ?."""
    return html.escape(printable(render(value), keep=""))


def write_page(out: Path, command: str, title: str, *content: str, subtitle: str) -> None:
    """Write the page of a command: one file, whole or not at all.

    Title and subtitle are plain text, the content is HTML.
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
    about = paragraph(remark, style="quiet") if remark else ""
    return f"<section><h2>{text(Message(heading))}</h2>{about}{''.join(content)}</section>"


def paragraph(words: str, *, style: str = "") -> str:
    """Return plain text as a paragraph."""
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
    cells = [tuple(row) for row in rows]
    lines = [""] * (1 + len(cells))
    for number, column in enumerate(columns):
        name, values = text(Message(column)), [row[number] for row in cells]
        is_numbers = values and all(isinstance(value, int | float) for value in values)
        style = ' class="number"' if is_numbers else ""
        lines[0] += f"<th{style}>{name}</th>"
        for row, value in enumerate(values, start=1):
            lines[row] += f'<td{style} data-column="{name}">{text(_shown(value))}</td>'
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def figure(picture: Frame, caption: str, *, longest: int = 360) -> str:
    """Return a picture inside the page, as JPEG, with a caption that is plain text."""
    return (
        f'<figure><img alt="{text(caption)}" src="{picture_uri(picture, longest)}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )


def picture_uri(picture: Frame, longest: int) -> str:
    """Return an RGB picture as a `data:` address: JPEG, its longer side at most so long."""
    return _data_uri("jpeg", jpeg_bytes(picture, longest=longest))


def _data_uri(kind: str, data: bytes) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _shown(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else value


Bar = tuple[str, str, float, str]  # name, colour, length from 0 to 1, and the HTML beside it


def bar_chart(groups: Iterable[tuple[str, Iterable[Bar]]], *, label: str) -> str:
    """Return horizontal bars in groups, each with a heading, as wide as there is room.

    `label` says to screen readers what it shows.
    """
    marks = [f'<div class="bars" role="group" aria-label="{text(label)}">']
    for heading, bars in groups:
        marks.append(f"<h3>{text(heading)}</h3>")
        for name, colour, length, words in bars:
            style = f"width:{100 * min(max(length, 0.0), 1.0):.1f}%;background:{colour}"
            marks.append(
                f'<div class="bar"><span>{text(name)}</span>'
                f'<div><i style="{style}"></i></div><span>{words}</span></div>'
            )
    return "".join([*marks, "</div>"])


def badge(share: float, words: str) -> str:
    """Return words on the colour of how good a share is, and the word for it: `31.0 % bad`."""
    how_good = palette.grade(share)
    label = f"{text(words)} {text(Message(how_good.word))}"
    return f'<span class="badge" style="background:{how_good.colour}">{label}</span>'


def line_chart(lines: Sequence[tuple[str, npt.NDArray[Any]]], *, label: str) -> str:
    """Return curves over time, the first one wide and pale, behind the others.

    Each has a colour and `(frames,)` values, NaN where it is broken; the label stands above.
    """
    left, top, width, height = 40, 8, 376.0, 200.0  # no wider than a phone
    known = np.concatenate([values[np.isfinite(values)] for _, values in lines])
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    scale = (height - top - 8) / max(high - low, 1e-6)
    step = (width - left) / max(1, len(lines[0][1]) - 1)
    marks = [
        paragraph(label, style="quiet"),
        f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'role="img" aria-label="{text(label)}" font-size="12" fill="{palette.INK}">',
    ]
    for value in (low, high):
        y = height - 8 - (value - low) * scale
        marks.append(
            f'<line x1="{left}" x2="{width:g}" y1="{y:.1f}" y2="{y:.1f}" stroke="{palette.GRID}"/>'
            f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{value:.0f}</text>'
        )
    for number, (colour, values) in enumerate(lines):
        style = 'stroke-width="1.5"' if number else 'stroke-width="5" stroke-opacity="0.3"'
        for rows in np.ma.clump_unmasked(np.ma.masked_invalid(values)):  # type: ignore[no-untyped-call]
            places = " ".join(
                f"{left + step * row:.1f},{height - 8 - (values[row] - low) * scale:.1f}"
                for row in range(rows.start, rows.stop)
            )
            marks.append(f'<polyline points="{places}" fill="none" stroke="{colour}" {style}/>')
    return "".join([*marks, "</svg>"])


def colour_key(colours: Iterable[tuple[str, str]]) -> str:
    """Return words, each behind a box of its colour."""
    shown = (
        f'<span><i style="background:{colour}"></i>{text(words)}</span>'
        for words, colour in colours
    )
    return f'<p class="key">{"".join(shown)}</p>'


def strip_chart(strips: Sequence[tuple[str, npt.NDArray[np.uint8]]], *, label: str) -> str:
    """Return one thin row per part: coloured while it was found, grey while it was missing.

    Each has a part name and `(bins,)` presence over time, 255 for every frame of the bin.
    """
    rows = []
    empty = np.array(palette.rgb_of(palette.EMPTY))
    for name, strip in strips:
        levels = strip if len(strip) else np.zeros(1)
        levels = levels[np.arange(_STRIP_WIDTH) * len(levels) // _STRIP_WIDTH]
        opacity = np.where(levels > 0, 0.15 + 0.85 * levels / 255, 0)[:, None]
        colours = empty + opacity * (np.array(palette.rgb_of(palette.part_colour(name))) - empty)
        rows += [*[colours] * 7, *[np.full_like(colours, 255)] * 2]
    address = _data_uri("png", encode_picture(np.rint(rows).astype(np.uint8), "png"))
    return f'<img class="strip" alt="{text(label)}" src="{address}">'
