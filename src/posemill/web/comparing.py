"""Two runs of one clip against each other, for the player: distance of every frame, by parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from posemill.inspection.comparison.measure import PartAgreement, part_distances, shared_rows
from posemill.inspection.comparison.pairs import choose_layout
from posemill.skeletons import get_skeleton
from posemill.web.clip_data import read_whole
from posemill.web.library import ClipAddress

MOST_FRAMES = 5000


def compare_clips(one: ClipAddress, other: ClipAddress) -> dict[str, Any]:
    """Return for each frame of the first clip how far the points of the second are, in pixels.

    `rows` says which row of the second is the same frame, -1 where none is.
    """
    clips = [read_whole(each, MOST_FRAMES) for each in (one, other)]
    layout, is_shared = choose_layout(clips[0].skeleton_name, clips[1].skeleton_name)
    first, second = (clip.as_skeleton(layout) for clip in clips)
    rows_one, rows_other = shared_rows(first.frame_indices, second.frame_indices)
    known = np.asarray((first.sizes_wh[rows_one] > 0).all(axis=1))
    sizes = np.where(known[:, None], first.sizes_wh[rows_one], second.sizes_wh[rows_other])
    points = first.points[rows_one, :, :2], second.points[rows_other, :, :2]
    sums, counts = np.zeros(len(rows_one)), np.zeros(len(rows_one))
    parts: dict[str, Any] = {}
    for part in get_skeleton(layout).parts:
        indices = np.arange(part.start, part.stop)[is_shared[part.start : part.stop]]
        if not len(indices):
            continue
        has_one, has_other, pixels = part_distances(points, indices, sizes.astype(np.int64))
        agreement = PartAgreement()
        agreement.add(has_one, has_other, pixels[~np.isnan(pixels)])
        parts[part.name] = agreement.to_dict()
        sums += np.nansum(pixels, axis=1)
        counts += (~np.isnan(pixels)).sum(1)
    distances = np.full(len(first), np.nan)
    distances[rows_one] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    rows = np.full(len(first), -1)
    rows[rows_one] = rows_other
    return {
        "layout": layout,
        "num_points": int(is_shared.sum()),
        "distances": distances.tolist(),
        "rows": rows.tolist(),
        "parts": parts,
    }
