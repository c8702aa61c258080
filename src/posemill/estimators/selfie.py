"""Masks of people: MediaPipe's legacy SelfieSegmentation (0.10.21)."""

from __future__ import annotations

import functools

import cv2
import numpy as np

from posemill.estimators import checked_frames
from posemill.estimators.runtime import open_network
from posemill.records import FloatArray, Frame

# By the name of the network: width and height of its input.
_SIZES = {"selfie_segmentation": (256, 256), "selfie_segmentation_landscape": (256, 144)}


class SelfieSegmenter:
    """Says of each pixel how sure it belongs to a person.

    Only LiteRT has the networks' last operator, so it runs on a CPU.

    Args:
        landscape: Whether the smaller network for wide pictures is used.
        threads: Threads inside one network call.
    """

    def __init__(self, *, landscape: bool, threads: int = 1) -> None:
        name = "selfie_segmentation_landscape" if landscape else "selfie_segmentation"
        self._size = _SIZES[name]
        self._network = open_network(name, runtime="litert", device="cpu", threads=threads)

    def find(self, frame: Frame) -> FloatArray:
        """Return the mask `(height, width)`, 0..1, of an RGB picture."""
        (picture,) = checked_frames([frame])
        (small,) = self._network.run(self._shrink(picture)[None])
        height, width = picture.shape[:2]
        return enlarge_evenly(small.reshape(self._size[::-1]), (width, height))

    def _shrink(self, picture: Frame) -> Frame:
        """Return the whole picture, stretched to the network's input without a half-pixel shift."""
        height, width = picture.shape[:2]
        to_crop = cv2.getPerspectiveTransform(_corners(width, height), _corners(*self._size))
        return np.asarray(
            cv2.warpPerspective(
                picture, to_crop, self._size, flags=cv2.INTER_LINEAR,
                borderMode=cv2.BORDER_CONSTANT,
            ),
            np.uint8,
        )  # fmt: skip

    def close(self) -> None:
        """Free the network."""
        if hasattr(self, "_network"):
            del self._network


def _corners(width: int, height: int) -> FloatArray:
    return np.array([(0, height), (0, 0), (width, 0), (width, height)], np.float32)


def enlarge_evenly(small: FloatArray, size_wh: tuple[int, int]) -> FloatArray:
    """Return a map in another size, bilinear between the middles of its cells.

    As OpenCV's `resize` without Intel's library, which rounds in another way.
    """
    (left, right, share_x), (top, bottom, share_y) = (
        _neighbours(old, new) for old, new in zip(small.shape[::-1], size_wh, strict=True)
    )
    one = np.float32(1)
    wide = small.take(left, axis=1)
    wide *= one - share_x
    wide += small.take(right, axis=1) * share_x
    upper, lower = wide.take(top, axis=0), wide.take(bottom, axis=0)
    upper *= (one - share_y)[:, None]
    lower *= share_y[:, None]
    upper += lower
    return upper


@functools.lru_cache(maxsize=8)
def _neighbours(old: int, new: int) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """Return the two old cells that each new one lies between, and its share of the second."""
    places = ((np.arange(new) + 0.5) * (old / new) - 0.5).astype(np.float32)
    first = np.floor(places).astype(np.intp)
    share = places - first.astype(np.float32)
    share[(first < 0) | (first >= old - 1)] = 0
    first = np.clip(first, 0, old - 1)
    return first, np.minimum(first + 1, old - 1), share
