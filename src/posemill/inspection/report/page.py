"""The frame of an HTML report: one file, no script, and a policy that forbids loading anything."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from typing import Any

import cv2

from posemill.errors import PosemillError
from posemill.records import Frame
from posemill.terminal import printable

_STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #f4f6f8; color: #1d232b;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 24px 16px 60px; }
h1 { font-size: 26px; margin: 8px 0 2px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 0 0 6px; }
h3 { font-size: 15px; margin: 18px 0 4px; overflow-wrap: anywhere; }
section { background: #fff; border: 1px solid #dde1e7; border-radius: 8px; padding: 18px 20px;
  margin-top: 18px; }
p { margin: 4px 0 10px; max-width: 76ch; }
.quiet { color: #4d5866; }
.tiles { display: flex; flex-wrap: wrap; gap: 10px; margin-top: 14px; }
.tile { background: #fff; border: 1px solid #dde1e7; border-radius: 8px; padding: 10px 16px;
  min-width: 128px; }
.tile b { display: block; font-size: 22px; line-height: 1.2; }
.scroll { overflow-x: auto; }
svg { max-width: 100%; height: auto; display: block; }
.scroll svg { max-width: none; }
table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid #e6e9ee;
  vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums;
  white-space: nowrap; }
.row { display: flex; flex-wrap: wrap; gap: 18px; }
.clip { border-top: 1px solid #e6e9ee; padding: 12px 0 8px; }
.clip h3 { margin: 0 0 2px; }
.badge { display: inline-block; background: #8f2d20; color: #fff; border-radius: 4px;
  padding: 0 7px; font-size: 13px; font-variant-numeric: tabular-nums; }
.pictures { display: grid; grid-template-columns: repeat(4, 1fr); gap: 8px; margin-top: 8px; }
.pictures figure { margin: 0; }
.pictures img { width: 100%; aspect-ratio: 4 / 3; object-fit: contain; display: block;
  background: #1b1e24; border-radius: 4px; }
summary { cursor: pointer; margin: 12px 0 6px; }
figcaption { font-size: 12.5px; color: #3d4753; }
.strips { display: grid; grid-template-columns: minmax(120px, 300px) 480px auto; gap: 7px 14px;
  align-items: center; font-size: 13px; }
.strips span { overflow-wrap: anywhere; line-height: 1.25; }
.key i { display: inline-block; width: 12px; height: 12px; border-radius: 2px;
  margin: 0 5px 0 14px; vertical-align: -1px; }
.key i:first-child { margin-left: 0; }
code { font-size: 13px; overflow-wrap: anywhere; }
@media print { body { background: #fff; } section { border: 0; padding: 8px 0; } }
@media (max-width: 700px) { .pictures { grid-template-columns: repeat(2, 1fr); }
  .strips { grid-template-columns: 1fr; } }
"""
# Whatever is in the data, the browser loads nothing and runs nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def text(value: Any) -> str:
    """Return a value as HTML text: escaped, control characters and lone surrogates shown as ?."""
    return html.escape(printable(value, keep=""))


def page(title: str, body: Iterable[str]) -> str:
    """Return the whole HTML document."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{_STYLE}</style></head><body><main>"
        + "\n".join(body)
        + "</main></body></html>\n"
    )


def section(heading: str, *content: str, remark: str = "") -> str:
    """Return a section; `heading` and `remark` are plain text, the content is HTML."""
    said = f'<p class="quiet">{text(remark)}</p>' if remark else ""
    return f"<section><h2>{text(heading)}</h2>{said}{''.join(content)}</section>"


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table; numbers stand right, everything is escaped."""
    kept = [tuple(row) for row in rows]
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
            f"<td{style}>{text(_shown(value))}</td>"
            for value, style in zip(row, styles, strict=True)
        )
        + "</tr>"
        for row in kept
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def picture_uri(picture: Frame, width: int = 360) -> str:
    """Return a picture as a `data:` address: JPEG, at most `width` pixels wide."""
    if picture.shape[1] > width:
        size_wh = (width, max(1, round(picture.shape[0] * width / picture.shape[1])))
        picture = cv2.resize(picture, size_wh, interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    options = [cv2.IMWRITE_JPEG_QUALITY, 80]
    done, data = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), options)
    if not done:
        raise PosemillError(f"a picture of {picture.shape} cannot be written as JPEG")
    return "data:image/jpeg;base64," + base64.b64encode(data.tobytes()).decode()


def _shown(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.2f}" if isinstance(value, float) else value
