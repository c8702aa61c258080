"""Clips of pixels made shorter and smaller for Multigrid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from posemill.training.data.batches import Draw
from posemill.training.multigrid.schedule import LONG_CYCLE, SHORT_CYCLE, TIME_ONLY, Shape
from posemill.training.tasks.workload import Reshape, Split
from posemill.training.video.video_clips import VideoClips

MakeBatches = Callable[[VideoClips], Dataset[Any]]


def reshape_video(
    split: Split, clips: VideoClips, make: MakeBatches, *, least_size: int = 1
) -> Reshape | None:
    """Return how clips become shorter and smaller; None where their shape is not one and square.

    Args:
        split: The clips whole.
        clips: Its clips.
        make: Returns the batches of clips of another shape.
        least_size: The smallest side the network takes; sizes below are not gone through.
    """
    frames, size_wh = clips.sampling.num_frames, clips.size.size_wh
    if frames is None or frames < 2 or size_wh is None or size_wh[0] != size_wh[1]:
        return None
    size, (_, share) = size_wh[0], LONG_CYCLE[0]
    return Reshape(
        frames,
        size,
        LONG_CYCLE if round(size * share) >= least_size else TIME_ONLY,
        has_short_cycle=round(size * min(SHORT_CYCLE)) >= least_size,
        at=partial(_reshaped, split, clips, make),
        describe=_in_words,
    )


def _reshaped(
    split: Split, clips: VideoClips, make: MakeBatches, shapes: tuple[Shape, ...]
) -> Split:
    frames = shapes[0].num_frames
    return dataclasses.replace(
        split,
        batches=TurnBatches([make(clips.reshaped(frames, shape.size)) for shape in shapes]),
        lengths=np.full(len(split), frames, np.int64),
        batch_factors=tuple(shape.batch for shape in shapes),
        reshape=None,
    )


class TurnBatches(Dataset[Any]):
    """Batches of several shapes: a draw's turn says which.

    Args:
        batches: Of each turn.
    """

    def __init__(self, batches: Sequence[Any]) -> None:
        self.batches = tuple(batches)

    def __len__(self) -> int:
        return len(self.batches[0])

    def __getitem__(self, draw: Draw) -> Any:
        return self.__getitems__([draw])

    def __getitems__(self, draws: Sequence[Draw]) -> Any:
        """Return the batch of these draws, all of one turn."""
        return self.batches[draws[0].turn].__getitems__(draws)


def _in_words(shape: Shape) -> str:
    return f"{shape.num_frames} x {shape.size}²"
