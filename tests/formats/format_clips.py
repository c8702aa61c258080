"""Clips of every skeleton, with holes, for the tests of formats."""

from __future__ import annotations

import numpy as np

from posemill.records import PoseClip
from posemill.skeletons import get_skeleton


def make_clip(
    seed: int,
    *,
    frames: int = 6,
    skeleton: str = "holistic-143",
    size_wh: tuple[int, int] = (640, 480),
    **fields: object,
) -> PoseClip:
    """Return a clip of random points in a picture, some parts missing in some frames."""
    rng = np.random.default_rng(seed)
    layout = get_skeleton(skeleton)
    points = rng.uniform(0.05, 0.95, (frames, layout.num_points, 3)).astype(np.float32)
    scores = rng.uniform(0.1, 1, points.shape[:2]).astype(np.float32)
    for index, part in enumerate(layout.parts):
        gone = rng.random(frames) < 0.3
        gone[index % max(frames, 1) : index % max(frames, 1) + 1] = False
        points[gone, part.start : part.stop] = np.nan
    scores[np.isnan(points[..., 0])] = 0
    chosen: dict[str, object] = {
        "clip_id": f"clip_{seed}",
        "split": "train",
        "image_paths": tuple(f"clip_{seed}/images{i + 1:04d}.png" for i in range(frames)),
        "label": f"SIGN {seed}",
        "fps": 25.0,
    }
    return PoseClip(
        points=points,
        scores=scores,
        sizes_wh=np.tile(np.array(size_wh, np.int32), (frames, 1)),
        skeleton_name=skeleton,
        **(chosen | fields),  # type: ignore[arg-type]
    )


def make_clips(skeleton: str = "holistic-143") -> list[PoseClip]:
    """Return four clips of two splits: ids with folders and dots, one without paths or label."""
    return [
        make_clip(1, skeleton=skeleton, extra={"signer": "ä", "takes": [1, 2]}),
        make_clip(2, skeleton=skeleton, clip_id="deep/er.name", frames=3,
                  frame_indices=np.array([4, 6, 8], np.int64)),
        make_clip(3, skeleton=skeleton, split="dev", image_paths=(), label=None, fps=None),
        make_clip(4, skeleton=skeleton, split="dev", frames=1, clip_id="one"),
    ]  # fmt: skip


def assert_same(one: PoseClip, other: PoseClip, *, tolerance: float = 0.0) -> None:
    """Compare two clips field by field."""
    for name in ("clip_id", "split", "skeleton_name", "label", "fps", "image_paths"):
        assert getattr(one, name) == getattr(other, name), name
    assert dict(one.extra) == dict(other.extra)
    np.testing.assert_array_equal(one.frame_indices, other.frame_indices)
    np.testing.assert_array_equal(one.sizes_wh, other.sizes_wh)
    np.testing.assert_array_equal(one.mask, other.mask)
    if tolerance:
        np.testing.assert_allclose(one.points, other.points, atol=tolerance, rtol=0)
        np.testing.assert_allclose(one.scores, other.scores, atol=tolerance, rtol=0)
    else:
        np.testing.assert_array_equal(one.points, other.points)
        np.testing.assert_array_equal(one.scores, other.scores)
