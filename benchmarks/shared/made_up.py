"""Made-up keypoints for benchmarks that do not look at them: runs, and packed clips with labels."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from posemill.records import PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.writer import RunWriter
from posemill.skeletons import get_skeleton

CLIP_FRAMES = 112  # the median of PHOENIX-2014-T


def write_run(
    folder: Path, num_frames: int, skeleton_name: str, *, splits: Sequence[str] = ("train",)
) -> None:
    """Write a run of smooth random walks, a fifth of the hands missing."""
    skeleton = get_skeleton(skeleton_name)
    rng = np.random.default_rng(0)
    with RunWriter(folder, Manifest(skeleton_name, kind="benchmark")) as writer:
        for number in range(max(num_frames // CLIP_FRAMES, 1)):
            steps = rng.normal(0, 0.005, (CLIP_FRAMES, skeleton.num_points, 3))
            points = (0.5 + steps.cumsum(axis=0)).astype(np.float32)
            for part in skeleton.parts:
                if "hand" in part.name:
                    points[rng.random(CLIP_FRAMES) < 0.2, part.start : part.stop] = np.nan
            scores = np.where(np.isnan(points[..., 0]), 0, 0.9).astype(np.float32)
            name = f"2011/clip_{number:06d}"
            paths = tuple(f"{name}/images{i + 1:04d}.png" for i in range(CLIP_FRAMES))
            sizes = np.full((CLIP_FRAMES, 2), (210, 260), np.int32)
            split = splits[number % len(splits)]
            writer.add(PoseClip(points, scores, sizes, skeleton_name, name, split,
                                image_paths=paths, label="A B C", fps=25.0))  # fmt: skip


def write_clips(
    folder: Path, lengths: Sequence[int], num_classes: int, *, one_file_each: bool = False
) -> None:
    """Write `train_keypoints.npz` of 143 points as `prepare` does, and `labels.csv`.

    The label bends the path of the points. With `one_file_each`, the clips also as an npz each in
    `each/`, with their label, as training scripts often have them.
    """
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    points, names, rows = [], [], [("video_id", "label")]
    for index, length in enumerate(lengths):
        label, name = index % num_classes, f"c{index:05d}"
        drift = np.linspace(0, 1, length)[:, None, None] * np.sin(label + np.arange(143))[:, None]
        clip = rng.random((1, 143, 3)) + drift + rng.normal(size=(length, 143, 3)) * 0.02
        points.append(clip.astype(np.float32))
        names += [name] * int(length)
        rows.append((name, f"k{label:02d}"))
        if one_file_each:
            (folder / "each").mkdir(exist_ok=True)
            np.savez(folder / "each" / f"{name}.npz", keypoints=points[-1], label=label)
    np.savez(folder / "train_keypoints.npz", keypoints=np.concatenate(points), video_ids=names)
    with (folder / "labels.csv").open("w", newline="") as handle:
        csv.writer(handle).writerows(rows)
