"""Small clips and runs of them, and ledgers that somebody changed."""

import io
import sqlite3
from contextlib import closing

import numpy as np

from posemill.records import PoseClip
from posemill.runs.manifest import Manifest
from posemill.runs.reader import open_run
from posemill.runs.shards import checksum_of
from posemill.runs.writer import RunWriter
from posemill.skeletons import get_skeleton

SHARD = "part-000-0000000.parquet"


def small_clip(clip_id="a", num_frames=3, *, start=0, first=0, **more):
    """A clip of 18 points that all are `start`, `start + 1`, …; its second frame shows nobody."""
    points = np.zeros((num_frames, 18, 3), np.float32)
    points += start + np.arange(num_frames, dtype=np.float32)[:, None, None]
    points[1:2] = np.nan
    scores = np.full((num_frames, 18), 0.5, np.float32)
    sizes = np.tile(np.array([[210, 260]], np.int32), (num_frames, 1))
    more = {"split": "train", "frame_indices": np.arange(first, first + num_frames), **more}
    return PoseClip(points, scores, sizes, "openpose-18", clip_id=clip_id, **more)


def random_clip(clip_id, num_frames=8, *, seed=0, skeleton="holistic-543", **more):
    """A clip in every second frame of which the left hand was not found."""
    rng = np.random.default_rng(seed)
    num_points = get_skeleton(skeleton).num_points
    points = rng.normal(size=(num_frames, num_points, 3)).astype(np.float32)
    scores = rng.uniform(size=(num_frames, num_points)).astype(np.float32)
    part = get_skeleton(skeleton).part("left_hand")
    points[::2, part.start : part.stop] = np.nan
    scores[::2, part.start : part.stop] = 0
    sizes = np.tile(np.array([[210, 260]], np.int32), (num_frames, 1))
    return PoseClip(points, scores, sizes, skeleton, clip_id=clip_id, **more)


def write_run(folder, *clips, **more):
    with RunWriter(folder, Manifest(clips[0].skeleton_name, kind="import"), **more) as writer:
        for clip in clips:
            writer.add(clip)
    return open_run(folder)


def change_ledger(folder, statement, *values):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
        database.execute(statement, values)


def recommit(folder):
    """Write the checksums of the shards that are there into the ledger of a run."""
    for path in (folder / "shards").iterdir():
        checksum = checksum_of(io.BytesIO(path.read_bytes()))
        change_ledger(folder, "UPDATE shards SET checksum = ? WHERE name = ?", checksum, path.name)
