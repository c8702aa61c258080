"""`--size 1280x720`: the size of pictures that a file does not say, the same in every command."""

from __future__ import annotations

from typing import Annotated

import typer

PictureSize = Annotated[
    str | None,
    typer.Option("--size", metavar="WxH", help="Size of the pictures, where it is not known."),
]


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Return width and height in pixels; None for no text."""
    if text is None:
        return None
    width, _, height = text.lower().partition("x")
    if not (width.isdecimal() and height.isdecimal() and int(width) and int(height)):
        raise typer.BadParameter(f"expected WIDTHxHEIGHT such as 1280x720, got {text!r}")
    return int(width), int(height)
