"""`mp.solutions.selfie_segmentation`: the class."""

from __future__ import annotations

from typing import NamedTuple

from posemill.estimators.selfie import SelfieSegmenter
from posemill.records import FloatArray, Frame
from posemill.solutions.solution import Solution, check_choice, read_only

__all__ = ["SelfieSegmentation"]


class SelfieSegmentationResults(NamedTuple):
    """What was found in one picture: a mask `(height, width)` float32, 0..1, always."""

    segmentation_mask: FloatArray | None


class SelfieSegmentation(Solution[SelfieSegmentationResults]):
    """Drop-in for the legacy class: the same argument, and the same methods.

    Every picture stands alone.

    Args:
        model_selection: 0 for the general network, 1 for the faster one for wide pictures.
        threads: Threads inside one network call. Not in the original.
    """

    def __init__(self, model_selection: int = 0, *, threads: int = 1) -> None:
        check_choice("model_selection", model_selection, (0, 1))
        super().__init__(SelfieSegmenter(landscape=model_selection == 1, threads=threads))

    def _process(self, image: Frame) -> SelfieSegmentationResults:
        return SelfieSegmentationResults(read_only(self._engine.find(image)))
