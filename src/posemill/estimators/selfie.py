"""Masks of people: MediaPipe's legacy SelfieSegmentation (0.10.21)."""

from __future__ import annotations

import functools
from typing import Any

import cv2
import numpy as np

from posemill.estimators import checked_frames
from posemill.estimators.landmarks.sampling import fixed_places
from posemill.estimators.runtimes import open_network
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
        cv2.setNumThreads(threads)
        width, height = self._size
        self._pixels = np.zeros((1, height, width, 3), np.uint8)
        self._network = open_network(name, runtime="litert", device="cpu", threads=threads)

    def find(self, frame: Frame) -> FloatArray:
        """Return the mask `(height, width)`, 0..1, of an RGB picture."""
        (picture,) = checked_frames([frame])
        height, width = picture.shape[:2]
        places = _places(self._size, (width, height))
        cv2.remap(picture, *places, cv2.INTER_LINEAR, dst=self._pixels[0])
        (small,) = self._network.run(self._pixels)
        return enlarge_evenly(small.reshape(self._size[::-1]), (width, height))

    def close(self) -> None:
        """Free the network."""
        if hasattr(self, "_network"):
            del self._network


@functools.lru_cache(maxsize=8)
def _places(network_wh: tuple[int, int], picture_wh: tuple[int, int]) -> tuple[Any, Any]:
    """Return where whole pictures are sampled: stretched, without a shift by half a pixel."""
    width, height = picture_wh
    return fixed_places([(0, height), (0, 0), (width, 0), (width, height)], network_wh)


def enlarge_evenly(small: FloatArray, size_wh: tuple[int, int]) -> FloatArray:
    """Return a map in another size, bilinear between the middles of its cells.

    Intel's library inside of OpenCV rounds in another way, so it is left out for this thread.
    """
    uses_intel = cv2.ipp.useIPP()
    cv2.ipp.setUseIPP(False)
    try:
        large = cv2.resize(small, size_wh, interpolation=cv2.INTER_LINEAR)
    finally:
        cv2.ipp.setUseIPP(uses_intel)
    return np.asarray(large, np.float32)
