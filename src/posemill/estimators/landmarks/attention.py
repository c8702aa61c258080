"""The refined face: 478 landmarks, of which lips, eyes and irises are looked at a second time.

The published network has operators that no runtime but MediaPipe's knows. So it is run in four
pieces (`face_attention_…` of `posemill.weights.networks`): the first gives a mesh of 468 points and
a map of features; from the mesh follow three turned windows of the map, which the other three
read. What lies between, the windows and the way back, is here, in the original's float32 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from posemill.estimators.landmarks.libm import atan2, cos_sin
from posemill.estimators.landmarks.rects import f32
from posemill.estimators.runtimes import Network
from posemill.records import FloatArray
from posemill.skeletons.layouts import mirror_of_face

NUM_POINTS = 478
# Pixels of the crop for one cell of the map of features.
_CELL = f32(4)
_WINDOW = 16
_MARGIN = f32(1.5)
_HALF_WINDOW = f32(_WINDOW / 2)
_STEPS = np.arange(_WINDOW, dtype=np.float32)[None]
# fmt: off
_LIPS = (
    61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 185, 40, 39, 37, 0, 267, 269, 270, 409,
    78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308, 191, 80, 81, 82, 13, 312, 311, 310, 415,
    76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306, 184, 74, 73, 72, 11, 302, 303, 304, 408,
    62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292, 183, 42, 41, 38, 12, 268, 271, 272, 407,
)
# The subject's right eye: its 16 points, then rings around it up to the brow.
_EYE = (
    33, 7, 163, 144, 145, 153, 154, 155, 133, 246, 161, 160, 159, 158, 157, 173,
    130, 25, 110, 24, 23, 22, 26, 112, 243, 247, 30, 29, 27, 28, 56, 190,
    226, 31, 228, 229, 230, 231, 232, 233, 244, 113, 225, 224, 223, 222, 221, 189,
    35, 124, 46, 53, 52, 65, 143, 111, 117, 118, 119, 120, 121, 128, 245,
    156, 70, 63, 105, 66, 107, 55, 193,
)
# fmt: on
_OTHER_EYE = tuple(mirror_of_face(468)[point] for point in _EYE)
# The irises, five points each, and the eyes around them.
_IRISES = np.arange(468, 478).reshape(2, 5)
_EYES = np.array([_EYE[:16], _OTHER_EYE[:16]])


@dataclass(frozen=True)
class Region:
    """A region of the face that is looked at a second time.

    Args:
        network: The piece that reads its window.
        points: Of the mesh: they span the window, and the piece gives them anew.
        ends: Two of them on a line that lies level in the window.
        iris: The first of the five points of its iris; None for the lips.
    """

    network: str
    points: npt.NDArray[np.intp]
    ends: tuple[int, int]
    iris: int | None = None


REGIONS = (
    Region("face_attention_lips", np.array(_LIPS), (61, 291)),
    Region("face_attention_right_eye", np.array(_EYE), (33, 133), 468),
    Region("face_attention_left_eye", np.array(_OTHER_EYE), (362, 263), 473),
)


# All points that span windows, region by region: where each region begins, and whose each point is.
_SPANNED = np.concatenate([region.points for region in REGIONS])
_BEGINS = np.cumsum([0, *(len(region.points) for region in REGIONS[:-1])])
_WHOSE = np.repeat(np.arange(len(REGIONS)), [len(region.points) for region in REGIONS])
_ENDS = np.array([region.ends for region in REGIONS]).T
# All points that the pieces give, in the order of their outputs.
_OF_REGIONS = [
    [*region.points, *(() if region.iris is None else range(region.iris, region.iris + 5))]
    for region in REGIONS
]
_GIVEN = np.concatenate(_OF_REGIONS)
_GIVEN_BY = np.repeat(np.arange(len(REGIONS)), list(map(len, _OF_REGIONS)))


class AttentionNetwork:
    """The four pieces as one network: crops of a face in, 478 points and a logit out."""

    def __init__(self, open_piece: Callable[[str], Network]) -> None:
        self._mesh = open_piece("face_attention_mesh")
        self._pieces = [open_piece(region.network) for region in REGIONS]
        self.size, self.runs_batches = self._mesh.size, self._mesh.runs_batches

    def run(self, pixels: npt.NDArray[np.uint8]) -> list[FloatArray]:
        """Return points `(batch, 478 * 3)` in pixels of the crop, and logits `(batch, 1)`.

        The depth of irises is left 0: `settle_irises` gives it.
        """
        mesh, features, logits = self._mesh.run(pixels)
        batch = len(pixels)
        points = np.zeros((batch, NUM_POINTS, 3), np.float32)
        points[:, :468] = mesh.reshape(-1, 468, 3)
        maps = features.transpose(0, 2, 3, 1)  # (batch, 48, 48, 32)
        windows = np.array([windows_around(face) for face in points[:, :468, :2] / _CELL])
        views = np.stack([sample(maps[row], windows[row]) for row in range(batch)], 1)
        outputs = [
            output.reshape(batch, -1)
            for view, piece in zip(views, self._pieces, strict=True)
            for output in piece.run(view)
        ]
        given = np.concatenate(outputs, 1).reshape(batch, -1, 2)
        points[:, _GIVEN, :2] = back(given, windows[:, _GIVEN_BY])
        return [points.reshape(batch, -1), logits]


def settle_irises(points: FloatArray) -> None:
    """Give the irises of `(478, 3)` points the mean depth of the eye around them. In place."""
    points[_IRISES, 2] = points[_EYES, 2].mean(1, dtype=np.float64)[:, None]


def windows_around(points: FloatArray) -> FloatArray:
    """Return matrices `(3, 2, 3)` from cells of the regions' windows to cells of the features' map.

    Each region's points lie in its window, with a margin around them.

    Args:
        points: `(468, 2)` in cells of the map.
    """
    start, end = points[_ENDS]
    turns = np.array([cos_sin(-atan2(y, x)) for x, y in end - start]).T  # (2, 3)
    x, y = points[_SPANNED].T
    point_cos, point_sin = turns[:, _WHOSE]
    level = np.array([point_cos * x - point_sin * y, point_sin * x + point_cos * y])
    low = np.minimum.reduceat(level, _BEGINS, axis=1)  # (2, 3)
    high = np.maximum.reduceat(level, _BEGINS, axis=1)
    middle_x, middle_y = (low + high) / f32(2)
    scale_x, scale_y = _MARGIN * (high - low) / f32(_WINDOW)
    # Turned back: the sine is another, the cosine the same.
    cos, sin = turns
    center = np.array([cos * middle_x + sin * middle_y, cos * middle_y - sin * middle_x])
    along, across = np.array([cos, -sin]) * scale_x, turns[::-1] * scale_y
    shift = (along * -_HALF_WINDOW + across * -_HALF_WINDOW) + center
    return np.array([along, across, shift]).transpose(2, 1, 0)


def sample(features: FloatArray, windows: FloatArray) -> FloatArray:
    """Return windows `(n, 16, 16, channels)` of a map `(height, width, channels)`, bilinear.

    Cells that lie outside of the map are 0.

    Args:
        features: The map.
        windows: Their matrices, `(n, 2, 3)`.
    """
    height, width, _ = features.shape
    along, across, shift = windows.transpose(2, 1, 0)[..., None, None]  # (2, n, 1, 1): x and y
    # Cells are seen at their middle, on both sides.
    middle = along.astype(np.float64) * 0.5 + across.astype(np.float64) * 0.5 - 0.5
    shift = (shift + middle).astype(np.float32)
    places = along * _STEPS + across * _STEPS.T + shift  # (2, n, 16, 16)
    last = np.array([width - 1, height - 1], np.float32).reshape(2, 1, 1, 1)
    inside = np.minimum(np.maximum(places, 0), last)
    first = np.floor(inside)
    share_x, share_y = (inside - first)[..., None]
    left, top = first.astype(np.intp)
    right, bottom = np.minimum(first + 1, last).astype(np.intp)
    cells = features.reshape(height * width, -1)
    rows = np.array([top, bottom]) * width
    upper, lower = _blend(cells.take(rows + left, 0), cells.take(rows + right, 0), share_x)
    result = _blend(upper, lower, share_y)
    if not np.array_equal(inside, places):
        result[(inside != places).any(0)] = 0
    return result


def _blend(start: FloatArray, end: FloatArray, share: FloatArray) -> FloatArray:
    """Return values a share of the way from start to end. `end` is used up.

    The original's product with 1 - share is one of float64, the other of float32.
    """
    blended = (1 - share.astype(np.float64)) * start
    blended += np.multiply(share, end, out=end)
    return blended.astype(np.float32)


def back(points: FloatArray, windows: FloatArray) -> FloatArray:
    """Return `(…, n, 2)` points, each of its window, in pixels of its own, as pixels of the crop.

    Args:
        points: In pixels of their windows.
        windows: The matrix of each point's window, `(…, n, 2, 3)`.
    """
    x, y = points[..., :1], points[..., 1:]
    return (windows[..., 0] * x + windows[..., 1] * y) + windows[..., 2] * _CELL
