"""Five points of whatever is bright on a dark ground."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from posemill.errors import ConfigError
from posemill.estimators import ClipState, EngineInfo, EngineOption
from posemill.records import Frame, Keypoints
from posemill.skeletons import Part, Skeleton

SILHOUETTE = Skeleton(
    "silhouette-5",
    parts=(Part("body", 0, 5),),
    point_names=("top", "bottom", "left_side", "right_side", "middle"),
    bones=((0, 4), (1, 4), (2, 4), (3, 4)),
    mirror=(0, 1, 3, 2, 4),
)


class SilhouetteEngine:
    """The middle and the four ends of what is brighter than a threshold.

    Args:
        device: `cpu`.
        threads: Not used.
        threshold: Mean of red, green and blue from which on a pixel belongs to the figure.
    """

    info = EngineInfo(
        "middle and ends of a bright figure on a dark ground",
        (SILHOUETTE,),
        modes=("image",),
        options=(
            EngineOption("threshold", int, 128, "From which brightness on it is the figure.",
                         least=1, most=255),
        ),
    )  # fmt: skip

    def __init__(self, *, device: str = "cpu", threads: int = 1, threshold: int = 128) -> None:
        self.threshold = threshold

    def new_state(self) -> ClipState:
        """There is no video mode."""
        raise ConfigError("engine 'silhouette' has no video mode")

    def load_state(self, data: bytes) -> ClipState:
        """There is no video mode."""
        raise ConfigError("engine 'silhouette' has no video mode")

    def estimate(
        self, frames: Sequence[Frame], states: Sequence[ClipState] | None = None
    ) -> Keypoints:
        """Return the points of each frame, x and y as shares of its width and height."""
        points = np.full((len(frames), 5, 3), np.nan, np.float32)
        scores = np.zeros((len(frames), 5), np.float32)
        for row, frame in enumerate(frames):
            y, x = np.nonzero(frame.mean(axis=2) >= self.threshold)
            if len(x):
                ends = [y.argmin(), y.argmax(), x.argmax(), x.argmin()]
                places = [*((x[i], y[i]) for i in ends), (x.mean(), y.mean())]
                # The middle of a pixel; z is 0 for a flat skeleton.
                points[row, :, :2] = (np.array(places) + 0.5) / (frame.shape[1], frame.shape[0])
                points[row, :, 2] = 0
                scores[row] = 1
        sizes_wh = np.array([frame.shape[1::-1] for frame in frames], np.int32).reshape(-1, 2)
        return Keypoints(points, scores, sizes_wh)

    def identity(self) -> dict[str, str]:
        """Return what decides the result; a run that was begun with another is not continued."""
        return {"engine": "silhouette", "version": "1", "threshold": str(self.threshold)}

    def close(self) -> None:
        """Nothing is held."""
