"""Pictures of clips as PNG or JPEG, in files whose names come from data, or in a viewer."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cv2

from posemill.errors import PosemillError
from posemill.files import mark_output, new_folders, safe_parts
from posemill.records import Frame


def safe_path(folder: Path, *names: str, suffix: str) -> Path:
    """Return a path below `folder` for a thing named by `names`, each of which may hold slashes.

    `..`, absolute paths, drive letters and characters some file system refuses become harmless; a
    name that had to be changed gets a hash of the original, so two names never share a file.

    Raises:
        PosemillError: A link inside the folder leads out of it.
    """
    parts = [part for name in names for part in safe_parts(name)]
    target = folder.joinpath(*parts[:-1], parts[-1] + suffix)
    if not target.resolve().is_relative_to(folder.resolve()):
        raise PosemillError(
            "{target} leads out of {folder} by a link; choose another folder",
            target=target,
            folder=folder,
        )
    return target


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Make the folder of a file that is written inside the block; say what was in the way."""
    if path.is_dir():
        raise PosemillError("{path} is a folder; name a file", path=path)
    new = [each for each in path.parents if not each.exists()]
    try:
        with new_folders(path.parent):
            yield
        if new and path.suffix != ".html":  # a page is not what data are looked for among
            mark_output(new[-1])
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise PosemillError(
            "{path} cannot be written: {reason}; choose another place", path=path, reason=reason
        ) from error


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
