"""Square pieces of a frame, as the networks see them, and the way back to its pixels."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from posemill.records import FloatArray, Frame


@dataclass(frozen=True, eq=False)
class Square:
    """A piece of a frame, made smaller or larger; what lies outside of the frame has one colour.

    Args:
        picture: `(size, size, 3)`, bytes.
        scale: Pixels of the frame in one of the picture, x and y.
        shift: Where the picture's corner lies in the frame, x and y in pixels.
    """

    picture: Frame
    scale: FloatArray
    shift: FloatArray


def cut_square(
    frame: Frame, corner: tuple[int, int], side: int, *, size: int, colour: int
) -> Square:
    """Return a square piece of a frame, of which at least one pixel lies inside.

    Args:
        frame: Where it is cut out.
        corner: Its left and its top edge, in pixels of the frame.
        side: In pixels of the frame.
        size: Side of the picture that comes back.
        colour: Of what lies outside.
    """
    ratio = size / side
    edges = []
    for start, length in zip(corner, frame.shape[1::-1], strict=True):
        first, last = max(start, 0), min(start + side, length)
        # Whole pixels of the picture, at least one: scale and shift below know which.
        begin = min(round((first - start) * ratio), size - 1)
        end = max(round((last - start) * ratio), begin + 1)
        edges.append((first, last, begin, end))
    (left, right, x, x_end), (top, bottom, y, y_end) = edges
    picture = np.full((size, size, 3), colour, np.uint8)
    how = cv2.INTER_AREA if ratio < 1 else cv2.INTER_LINEAR
    picture[y:y_end, x:x_end] = cv2.resize(
        frame[top:bottom, left:right], (x_end - x, y_end - y), interpolation=how
    )
    scale = np.array([(right - left) / (x_end - x), (bottom - top) / (y_end - y)], np.float32)
    shift = np.array([left, top], np.float32) - scale * np.array([x, y], np.float32)
    return Square(picture, scale, shift)
