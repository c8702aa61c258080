"""Keypoint clips made shorter for Multigrid: a quarter of their frames, a half, all."""

from __future__ import annotations

import dataclasses
from functools import partial

import numpy as np

from posemill.records import BoolArray
from posemill.training.data.batches import BatchMaker, share_of
from posemill.training.data.datasets import KeypointSet, frames_needed
from posemill.training.multigrid.schedule import TIME_ONLY, Shape
from posemill.training.tasks.workload import Reshape, Split

_WHOLE = 4  # frames that stand for a whole clip: a quarter of it is one


def reshape_keypoints(split: Split, maker: BatchMaker, *, time_stride: int = 1) -> Reshape | None:
    """Return how training clips become shorter; None where all have one frame only.

    Args:
        split: The clips whole.
        maker: Its batches.
        time_stride: Frames per output step of the model (ctc).
    """
    if split.lengths.max() < 2:
        return None
    grid, notes = [], []
    for time, space in TIME_ONLY:
        kept = int(fitting(maker.clips, time, time_stride).sum())
        short = f"{len(split) - kept} of {len(split)} clips are too short for their glosses"
        if kept < len(split) / 2:
            notes.append(f"{_in_words(time)} are left out: {short}")
            continue
        grid.append((time, space))
        if kept < len(split):
            notes.append(f"{_in_words(time)}: {short} and come with more frames only")
    return Reshape(
        _WHOLE,
        1,
        tuple(grid),
        has_short_cycle=False,
        at=partial(_shortened, split, maker, time_stride),
        describe=lambda shape: _in_words(shape.num_frames / _WHOLE),
        notes=tuple(notes),
    )


def fitting(clips: KeypointSet, time_share: float, time_stride: int) -> BoolArray:
    """Return `(N,)`: whether a clip's glosses fit into a share of its frames; classes always do."""
    if clips.task != "ctc":
        return np.ones(len(clips), bool)
    needed = [frames_needed(np.asarray(target)) for target in clips.targets]
    found: BoolArray = share_of(clips.lengths, time_share) // time_stride >= np.asarray(needed)
    return found


def _shortened(
    split: Split, maker: BatchMaker, time_stride: int, shapes: tuple[Shape, ...]
) -> Split:
    (shape,) = shapes
    share = shape.num_frames / _WHOLE
    clips = maker.clips.select(np.flatnonzero(fitting(maker.clips, share, time_stride)))
    return dataclasses.replace(
        split,
        batches=BatchMaker(clips, maker.augment, maker.seed, time_share=share),
        lengths=share_of(clips.lengths, share),
        batch_factors=(shape.batch,),
        reshape=None,
    )


def _in_words(share: float) -> str:
    return "all frames" if share == 1 else f"1/{round(1 / share)} of the frames"
