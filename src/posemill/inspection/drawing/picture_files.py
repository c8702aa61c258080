"""Pictures of clips in files whose names come from data, or in a viewer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2
import numpy as np

from posemill.decoders.pictures import encode_picture
from posemill.errors import PosemillError
from posemill.files import atomic_path, mark_file, mark_output, new_folders, safe_parts
from posemill.outputs import Outputs
from posemill.records import Frame


def safe_path(folder: Path, *names: str, suffix: str) -> Path:
    """Return a path below `folder`, no link out of it, for a thing that data name so."""
    parts = [part for name in names for part in safe_parts(name)]
    target = folder.joinpath(*parts[:-1], parts[-1] + suffix)
    if not target.resolve().is_relative_to(folder.resolve()):
        template = "{target} leads out of {folder} by a link; choose another folder"
        raise PosemillError(template, target=target, folder=folder)
    return target


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file that is written inside the block; say what was in the way."""
    new = [each for each in path.parents if not each.exists()]
    try:
        with new_folders(path.parent):
            yield
        if path.suffix != ".html":  # a page is not what data are looked for among
            mark_output(new[-1]) if new else mark_file(path)
    except OSError as error:
        template = "{path} cannot be written: {reason}; choose another place"
        reason = error.strerror or type(error).__name__
        raise PosemillError(template, path=path, reason=reason) from error


def scaled(picture: Frame, scale: float) -> Frame:
    """Return a picture so many times as large."""
    size_wh = tuple(max(1, round(side * scale)) for side in picture.shape[1::-1])
    way = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, size_wh, interpolation=way), np.uint8)


def paste(place: Frame, picture: Frame) -> None:
    """Put the whole picture into the middle of the place, as large as it fits.

    One row or column too many is cut off: that is not worth a blur.
    """
    height, width = place.shape[:2]
    if picture.shape[0] - height in (0, 1) and picture.shape[1] - width in (0, 1):
        place[:] = picture[:height, :width]
        return
    small = scaled(picture, min(height / picture.shape[0], width / picture.shape[1]))
    top, left = (height - small.shape[0]) // 2, (width - small.shape[1]) // 2
    place[top : top + small.shape[0], left : left + small.shape[1]] = small


def jpeg_bytes(picture: Frame, *, longest: int) -> bytes:
    """Return an RGB picture as JPEG, made smaller where its longer side has more pixels."""
    scale = longest / max(picture.shape[:2])
    return encode_picture(scaled(picture, scale) if scale < 1 else picture, "jpg", quality=80)


def write_picture(path: Path, picture: Frame, outputs: Outputs) -> None:
    """Write a PNG, whole or not at all; folders are made."""
    data = encode_picture(picture, "png")
    with outputs.writing_file(path), writing(path), atomic_path(path) as temporary:
        temporary.write_bytes(data)


def open_viewer(picture: Frame) -> None:
    """Open an RGB picture in the viewer of this system; PosemillError where there is no screen."""
    from PIL import Image

    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        raise PosemillError(
            "there is no screen here; write a file, clip.show(path='clip.png'), or use a notebook"
        )
    Image.fromarray(picture).show()
