"""Runs whose shards were changed by somebody who changed the ledger as well."""

from __future__ import annotations

import io
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from posemill.records import PoseClip
from posemill.runs.shards import checksum_of


def small_clip(
    clip_id: str = "a", num_frames: int = 3, *, start: float = 0, first: int = 0, **more: Any
) -> PoseClip:
    """A clip of 18 points that all are `start`, `start + 1`, …; its second frame shows nobody."""
    points = np.zeros((num_frames, 18, 3), np.float32)
    points += start + np.arange(num_frames, dtype=np.float32)[:, None, None]
    points[1:2] = np.nan
    scores = np.full((num_frames, 18), 0.5, np.float32)
    sizes = np.tile(np.array([[210, 260]], np.int32), (num_frames, 1))
    more = {"split": "train", "frame_indices": np.arange(first, first + num_frames), **more}
    return PoseClip(points, scores, sizes, "openpose-18", clip_id=clip_id, **more)


@pytest.fixture
def recommit() -> Callable[[Path], None]:
    """Write the checksums of the shards that are there into the ledger of a run."""

    def write(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "ledger.sqlite")) as database, database:
            for path in (folder / "shards").iterdir():
                database.execute(
                    "UPDATE shards SET checksum = ? WHERE name = ?",
                    (checksum_of(io.BytesIO(path.read_bytes())), path.name),
                )

    return write
