"""What some formats do not keep of some clips, and how to tell whether a clip has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from posemill.messages import Message
from posemill.records import PoseClip

LEAST_SCORE = 1e-6  # of a point that was found, where a score of 0 means that it was not


class Loss(NamedTuple):
    """Something that a file does not keep: `words` name it, `is_in` says whether a clip has it."""

    words: str
    is_in: Callable[[PoseClip], bool]


DEPTH = Loss("z", lambda clip: bool(np.nan_to_num(clip.points[..., 2]).any()))
SCORES = Loss(
    Message("scores (1 where found)"), lambda clip: bool((clip.mask & (clip.scores != 1)).any())
)
TINY_SCORES = Loss(
    Message("scores below 0.000001 (they become that)"),
    lambda clip: bool((clip.mask & (clip.scores < LEAST_SCORE)).any()),
)
SIZES = Loss(Message("picture sizes"), lambda clip: bool(clip.sizes_wh.any()))
OTHER_SIZES = Loss(
    Message("sizes of frames that differ from the first of their clip"),
    lambda clip: bool((clip.sizes_wh != clip.sizes_wh[:1]).any()),
)
POSITIONS = Loss(
    Message("frame positions"),
    lambda clip: bool((clip.frame_indices != np.arange(len(clip))).any()),
)
IMAGE_PATHS = Loss(Message("image paths"), lambda clip: bool(clip.image_paths))
LABELS = Loss(Message("labels"), lambda clip: clip.label is not None)
FPS = Loss("fps", lambda clip: clip.fps is not None)
EXTRA = Loss(Message("further columns of the clip list"), lambda clip: bool(clip.extra))
WORLD = Loss(Message("landmarks in metres"), lambda clip: clip.world is not None)
EMPTY_CLIPS = Loss(Message("clips without frames"), lambda clip: not len(clip))
