"""A picture in front of someone: as PNG or JPEG bytes, or in the system's viewer."""

from __future__ import annotations

import os
import sys

import cv2

from posemill.errors import PosemillError
from posemill.records import Frame


def png_bytes(picture: Frame) -> bytes:
    """Return an RGB picture as PNG."""
    done, data = cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
    if not done:
        raise PosemillError(
            "a picture of {picture_shape} cannot be written as PNG", picture_shape=picture.shape
        )
    return data.tobytes()


def jpeg_bytes(picture: Frame, *, longest: int | None = None, quality: int = 80) -> bytes:
    """Return an RGB picture as JPEG, made smaller where its longer side has more pixels."""
    scale = (longest or 1 << 16) / max(picture.shape[:2])
    if scale < 1:
        size_wh = tuple(max(1, round(side * scale)) for side in picture.shape[1::-1])
        picture = cv2.resize(picture, size_wh, interpolation=cv2.INTER_AREA)  # type: ignore[assignment]
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    done, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not done:
        raise PosemillError(
            "a picture of {picture_shape} cannot be written as JPEG", picture_shape=picture.shape
        )
    return data.tobytes()


def open_viewer(picture: Frame) -> None:
    """Open an RGB picture in the viewer of this system.

    Raises:
        PosemillError: There is no screen.
    """
    from PIL import Image

    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        raise PosemillError(
            "there is no screen here; write a file, clip.show(path='clip.png'), or use a notebook"
        )
    Image.fromarray(picture).show()
