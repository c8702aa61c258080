"""Clips behind each other in shared arrays: what concerns every frame is done to all at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter

import numpy as np

from posemill.geometry import fill_missing
from posemill.records import FloatArray, IntArray, PoseClip, join_people, join_world

# Frames in a block, at least: large arrays use numpy well, 40 MB of 543 points use little memory.
BLOCK_FRAMES = 4096


@dataclass(frozen=True, eq=False)
class ClipBlock:
    """Clips of one split and one skeleton, normalised in one way."""

    frames: PoseClip  # the rows of all of them, as though they were one clip; named like the first
    clips: tuple[PoseClip, ...]  # at least one, in the order of their rows; usually views of those
    # The same frames of the next person and so on, where several people are wanted.
    beside: tuple[ClipBlock, ...] = ()

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def split(self) -> str:
        """The split of all the clips."""
        return self.frames.split

    @cached_property
    def lengths(self) -> IntArray:
        """`(clips,)`: frames of each clip."""
        return np.array([len(clip) for clip in self.clips], np.int64)

    @cached_property
    def zeroed(self) -> FloatArray:
        """`(frames, keypoints, 3)`: the points, 0 where not found."""
        return fill_missing(self.frames.points, "zero")

    def as_skeleton(self, name: str) -> ClipBlock:
        """Return the same clips in another layout, see `PoseClip.as_skeleton`."""
        if name == self.frames.skeleton_name:
            return self
        frames = self.frames.as_skeleton(name)
        stops = np.cumsum(self.lengths).tolist()
        cut = (
            dataclasses.replace(
                clip,
                points=frames.points[stop - len(clip) : stop],
                scores=frames.scores[stop - len(clip) : stop],
                skeleton_name=name,
                others=frames.others and frames.others.of_frames(stop - len(clip), stop),
            )
            for clip, stop in zip(self.clips, stops, strict=True)
        )
        return ClipBlock(frames, tuple(cut))


def join_clips(clips: Sequence[PoseClip]) -> ClipBlock:
    """Return one block of clips that have the same split and skeleton. One clip is not copied."""
    first = clips[0]
    if len(clips) == 1:
        return ClipBlock(first, (first,))
    frames = dataclasses.replace(
        first,
        points=np.concatenate([clip.points for clip in clips]),
        scores=np.concatenate([clip.scores for clip in clips]),
        sizes_wh=np.concatenate([clip.sizes_wh for clip in clips]),
        frame_indices=np.concatenate([clip.frame_indices for clip in clips]),
        image_paths=(),
        others=join_people([clip.others for clip in clips]),
        world=join_world(clips),
    )
    return ClipBlock(frames, tuple(clips))


def join_stream(clips: Iterable[PoseClip]) -> Iterator[ClipBlock]:
    """Yield the clips in blocks of `BLOCK_FRAMES` or more, in order; of fewer before a border.

    A border is where the split, the skeleton or the normalisation changes, and the end.
    """
    for _, alike in groupby(clips, attrgetter("split", "skeleton_name", "normalized")):
        waiting, total = list[PoseClip](), 0
        for clip in alike:
            waiting.append(clip)
            total += len(clip)
            if total >= BLOCK_FRAMES:
                yield join_clips(waiting)
                waiting, total = [], 0
        if waiting:
            yield join_clips(waiting)
