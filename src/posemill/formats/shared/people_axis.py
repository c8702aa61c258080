"""Several people as an axis of an array, as `.pose` and pyskl have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from posemill.formats.shared.contract import make_clip
from posemill.records import FloatArray, IntArray, OtherPeople, PersonIds, PoseClip
from posemill.tracker import slots_of


def stack_people(clip: PoseClip) -> tuple[FloatArray, FloatArray]:
    """Return points `(frames, people, keypoints, 3)`, NaN where there is nobody, and scores.

    Everybody has a place of their own along the clip, see `posemill.tracker.slots_of`.
    """
    others = clip.others
    if others is None or not others.counts.any():
        return clip.points[:, None], clip.scores[:, None]
    slots = np.concatenate(slots_of(clip))
    most = int(slots.max()) + 1
    frames = np.arange(len(clip))
    frames = np.concatenate([frames, np.repeat(frames, others.counts)])
    points = np.full((len(clip), most, *clip.points.shape[1:]), np.nan, np.float32)
    scores = np.zeros(points.shape[:3], np.float32)
    rows = np.nonzero(slots >= 0)[0]
    points[frames[rows], slots[rows]] = np.concatenate([clip.points, others.points])[rows]
    scores[frames[rows], slots[rows]] = np.concatenate([clip.scores, others.scores])[rows]
    return points, scores


def clip_of_axis(
    path: Path,
    points: FloatArray,
    scores: FloatArray,
    *,
    first: IntArray,
    ids: IntArray | None,
    sizes_wh: Any,
    **fields: Any,
) -> PoseClip:
    """Return the clip of `(frames, people, keypoints, 2 or 3)`: of each frame those found in it.

    Args:
        path: For messages.
        points: Of everybody.
        scores: Likewise.
        first: `(frames,)`: who stands for each frame, if found.
        ids: `(frames, people)`; None where nobody knows them.
        sizes_wh: `(frames, 2)`.
        fields: The other fields of `PoseClip`.
    """
    is_there = np.asarray((scores > 0).any(axis=2))
    rank = np.where(is_there, 1, 2)
    rows = np.arange(len(points))[:, None]
    rank[rows[:, 0], first] -= is_there[rows[:, 0], first]
    order = np.argsort(rank, axis=1, kind="stable")
    points, scores, is_there = points[rows, order], scores[rows, order], is_there[rows, order]

    def made(chosen: Any, sizes: Any, **known: Any) -> PoseClip:
        found = scores[chosen] > 0
        return make_clip(
            path, points[chosen], np.clip(scores[chosen], 0, 1), found, sizes_wh=sizes, **known
        )

    clip = made(np.s_[:, 0], sizes_wh, **fields)
    if ids is not None:
        ids = np.where(is_there, ids[rows, order], 0)
    is_there[:, :1] = False
    counts = is_there.sum(axis=1)
    if not counts.any():
        return clip
    name = clip.skeleton_name
    rest = made(is_there, np.repeat(sizes_wh, counts, axis=0), skeleton_name=name)
    known = None if ids is None else PersonIds(ids[:, 0], ids[is_there])
    return replace(clip, others=OtherPeople(counts, rest.points, rest.scores, ids=known))
